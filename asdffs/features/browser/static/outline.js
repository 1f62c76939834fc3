// The outline of the tree.  Children are asked for when a value is opened, a part at a time.

import { ask, element, make } from "./asking.js";

export class Outline {
  /** `go.array(name)` shows an array, `go.line(line)` a line of the text. */
  constructor(go) {
    this.go = go;
    this.waiting = 0;
    element("search").addEventListener("input", () => this.search());
  }

  async start() {
    element("tree").replaceChildren(make("li", "reading the tree…"));
    const list = make("ul");
    await this.addChildren(list, ".", 0);
    element("tree").replaceChildren(...list.children);
  }

  async addChildren(list, path, start) {
    const found = await ask("tree", { path, start });
    list.append(...found.children.map((one) => this.item(one)));
    const next = start + found.children.length;
    if (next < found.total) {
      const more = make("li");
      const button = make("button", `… ${found.total - next} more`);
      button.addEventListener("click", async () => { more.remove(); await this.addChildren(list, path, next); });
      more.append(button);
      list.append(more);
    }
  }

  item(one, label = one.key) {
    const item = make("li");
    const button = make("button");
    button.append(make("span", label, "key"), `: `, make("span", one.text, one.array === null ? "" : "array"));
    item.append(button);
    if (one.array !== null) {
      button.addEventListener("click", () => this.go.array(one.array));
    } else if (one.open) {
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => this.toggle(item, button, one));
    } else {
      button.addEventListener("click", () => { if (one.line) this.go.line(one.line); });
    }
    return item;
  }

  async toggle(item, button, one) {
    const shown = item.querySelector(":scope > ul");
    if (shown) {
      shown.hidden = !shown.hidden;
      button.setAttribute("aria-expanded", String(!shown.hidden));
      return;
    }
    const list = make("ul");
    item.append(list);
    button.setAttribute("aria-expanded", "true");
    await this.addChildren(list, one.path, 0);
  }

  /** Search a moment after the last key, and show only the answer to the last question. */
  search() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      const text = element("search").value;
      if (!text) {
        element("found").textContent = "";
        return this.start();
      }
      const found = await ask("search", { text });
      if (element("search").value !== text) return;
      element("found").textContent = `${found.matches.length}${found.more ? " and more" : ""} found`;
      element("tree").replaceChildren(...found.matches.map((one) => this.item(one, one.path)));
    }, 150);
  }
}
