// The file to scale.

import { ask, element, make, urlOf } from "./asking.js";

/** Draw the parts of the file; `go(array)` shows an array of a block. */
export async function showFile(go) {
  const found = await ask("layout");
  element("map").replaceChildren(...found.parts.map((part) => {
    const button = make("button", "", part.kind === "tree" ? "tree-part" : part.kind);
    button.style.flexGrow = String(part.size);
    button.style.flexBasis = "0";
    button.setAttribute("aria-label", `${described(part)}, ${part.size.toLocaleString()} bytes`);
    button.title = button.getAttribute("aria-label");
    button.addEventListener("click", () => { if (part.arrays?.length) go(part.arrays[0]); });
    return button;
  }));
  element("parts").replaceChildren(row("th", "part", "start", "bytes", "stored", "arrays"), ...found.parts.map((part) => {
    const made = row("td", described(part), part.start.toLocaleString(), part.size.toLocaleString(), part.compression ?? "");
    const cell = make("td");
    if (part.block !== undefined) {
      const link = make("a", "download");
      link.href = urlOf("download", { what: "block", name: part.block });
      link.setAttribute("aria-label", `download block ${part.block}`);
      cell.append(link, " ");
    }
    for (const name of part.arrays ?? []) {
      const button = make("button", name);
      button.addEventListener("click", () => go(name));
      cell.append(button, " ");
    }
    made.append(cell);
    return made;
  }));
}

function described(part) {
  return part.kind === "block" ? `block ${part.block}` : part.kind;
}

function row(tag, ...texts) {
  const made = make("tr");
  made.append(...texts.map((text) => make(tag, text)));
  return made;
}
