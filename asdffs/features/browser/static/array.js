// An array as an image in tiles, or as a curve, with its numbers.

import { ask, element, make, urlOf } from "./asking.js";

const MOST_TILES = 128;

export class ArrayView {
  constructor() {
    this.name = null;
    this.facts = null;
    this.tiles = new Map();
    this.canvas = element("image");
    this.scale = 1; // pixels of the screen for one element
    this.left = 0; // the element at the left and at the bottom
    this.bottom = 0;
    for (const id of ["stretch", "cmap", "index"]) element(id).addEventListener("change", () => this.show(this.name));
    element("controls").addEventListener("submit", (event) => event.preventDefault());
    element("closer").addEventListener("click", () => this.zoom(2));
    element("farther").addEventListener("click", () => this.zoom(0.5));
    element("whole").addEventListener("click", () => this.showWhole());
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(event.deltaY < 0 ? 1.25 : 0.8, event); });
    this.canvas.addEventListener("pointerdown", (event) => this.canvas.setPointerCapture(event.pointerId));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    new ResizeObserver(() => this.draw()).observe(element("array"));
  }

  async show(name) {
    if (name === null) return;
    if (name !== this.name) element("index").value = "";
    this.name = name;
    this.sky = undefined; // whether it has sky coordinates, once that is known
    this.tiles.clear();
    element("array-name").textContent = name;
    element("pixel").textContent = "";
    try {
      this.facts = await ask("array", { name, index: this.index() });
    } catch (error) {
      this.facts = null;
      element("array-name").textContent = `${name}: ${error.message}`;
    }
    const plane = this.facts?.plane ?? [];
    const numeric = this.facts?.values === undefined && this.facts !== null;
    this.canvas.hidden = !(numeric && plane.length === 2);
    element("controls").hidden = !numeric || this.facts.shape.length === 0;
    element("curve").hidden = !(numeric && plane.length === 1);
    if (!element("curve").hidden) element("curve").src = urlOf("curve", { name, index: this.index() });
    for (const what of ["npy", "fits"]) element(what).href = urlOf("download", { what, name });
    element("downloads").hidden = this.facts === null;
    this.showNumbers();
    if (!this.canvas.hidden) this.showWhole();
  }

  index() {
    return element("index").value.replaceAll(" ", "");
  }

  showNumbers() {
    const facts = this.facts ?? {};
    const rows = {
      shape: facts.shape?.join(" x ") || "one element", dtype: facts.dtype, bytes: facts.bytes?.toLocaleString(),
      seen: facts.read === undefined ? undefined : `${facts.read.toLocaleString()} of ${facts.elements.toLocaleString()} elements`,
      least: facts.least, greatest: facts.greatest, mean: facts.mean, deviation: facts.deviation,
      NaN: facts.nan, infinite: facts.infinite, masked: facts.masked, values: facts.values?.join(", "),
    };
    const shown = Object.entries(rows).filter(([, value]) => value !== undefined && value !== null);
    element("numbers").replaceChildren(...(this.facts ? shown : []).map(([key, value]) => {
      const row = make("tr");
      const head = make("th", key);
      head.scope = "row";
      row.append(head, make("td", String(value)));
      return row;
    }));
    const bars = facts.bars ?? [];
    const most = Math.max(1, ...bars);
    element("histogram").replaceChildren(...bars.map((count) => {
      const bar = make("span");
      bar.style.height = `${(100 * count) / most}%`;
      bar.title = String(count);
      return bar;
    }));
  }

  // -- the image ----------------------------------------------------------------------

  showWhole() {
    const [rows, columns] = this.facts.plane;
    const width = Math.max(64, Math.min(element("array").clientWidth - 4, 1024));
    this.canvas.width = width;
    this.canvas.height = Math.max(64, Math.min(Math.round((width * rows) / columns), 768));
    this.scale = Math.min(this.canvas.width / columns, this.canvas.height / rows);
    this.left = this.bottom = 0;
    this.draw();
  }

  zoom(factor, event = null) {
    if (!this.facts) return;
    const x = event ? event.offsetX : this.canvas.width / 2;
    const y = this.canvas.height - (event ? event.offsetY : this.canvas.height / 2);
    const scale = Math.min(64, Math.max(this.scale * factor, 1 / 4096));
    this.left += x / this.scale - x / scale;
    this.bottom += y / this.scale - y / scale;
    this.scale = scale;
    this.draw();
  }

  press(event) {
    const step = 64 / this.scale;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) {
      this.left += moves[event.key][0];
      this.bottom += moves[event.key][1];
      this.draw();
    } else if (event.key === "+" || event.key === "=") {
      this.zoom(2);
    } else if (event.key === "-") {
      this.zoom(0.5);
    } else if (event.key === "0") {
      this.showWhole();
    } else {
      return;
    }
    event.preventDefault();
  }

  async point(event) {
    if (event.buttons & 1) {
      this.left -= event.movementX / this.scale;
      this.bottom += event.movementY / this.scale;
      return this.draw();
    }
    const column = Math.floor(this.left + event.offsetX / this.scale);
    const row = Math.floor(this.bottom + (this.canvas.height - event.offsetY) / this.scale);
    const [rows, columns] = this.facts.plane;
    if (row < 0 || column < 0 || row >= rows || column >= columns) return;
    const asked = `${row},${column}`;
    this.asked = asked;
    const found = await ask("pixel", { name: this.name, index: this.index(), row, column });
    if (this.asked !== asked) return;
    const told = `[${row}, ${column}] = ${found.value}`;
    element("pixel").textContent = told;
    if (this.sky === false) return;
    const sky = await ask("sky", { name: this.name, row, column });
    this.sky = sky.longitude !== undefined;
    if (this.sky && this.asked === asked) element("pixel").textContent = `${told}   ${sky.longitude}°, ${sky.latitude}° (${sky.frame})`;
  }

  /** Draw the tiles that are seen, as fine as they are seen; those that are not here yet are drawn when they come. */
  draw() {
    if (!this.facts || this.canvas.hidden) return;
    const context = this.canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const step = 2 ** Math.max(0, Math.floor(Math.log2(1 / this.scale)));
    const [rows, columns] = this.facts.plane;
    const side = this.facts.side * step;
    const range = (low, span, most) => [Math.max(0, Math.floor(low / side)), Math.min(Math.ceil(most / side), Math.ceil((low + span) / side))];
    const [top, end] = range(this.bottom, this.canvas.height / this.scale, rows);
    const [first, last] = range(this.left, this.canvas.width / this.scale, columns);
    for (let row = top; row < end; row++) {
      for (let column = first; column < last; column++) this.drawTile(context, step, row, column);
    }
  }

  drawTile(context, step, row, column) {
    const side = this.facts.side * step;
    const tile = this.tile(step, row, column);
    if (!tile.complete || !tile.naturalWidth) return;
    const [width, height] = [tile.naturalWidth * step * this.scale, tile.naturalHeight * step * this.scale];
    const x = (column * side - this.left) * this.scale;
    const y = this.canvas.height - (row * side - this.bottom) * this.scale - height;
    context.drawImage(tile, x, y, width, height);
  }

  tile(step, row, column) {
    const query = { name: this.name, index: this.index(), step, row, column, stretch: element("stretch").value, cmap: element("cmap").value };
    const url = urlOf("tile", query);
    let tile = this.tiles.get(url);
    if (!tile) {
      tile = new Image();
      tile.addEventListener("load", () => { this.canvas.dataset.drawn = "true"; this.draw(); });
      tile.addEventListener("error", () => this.tell(url));
      tile.src = url;
      this.tiles.set(url, tile);
      if (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
    }
    return tile;
  }

  /** Say why a picture is missing. */
  async tell(url) {
    const answer = await fetch(url);
    if (!answer.ok) element("pixel").textContent = (await answer.json()).error;
  }
}
