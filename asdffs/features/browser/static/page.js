// The page: outline, text, arrays and the file to scale.  All texts of the file are set as text, never as HTML.

import { Outline } from "./outline.js";
import { TextEditor } from "./text.js";
import { ArrayView } from "./array.js";
import { showFile } from "./file.js";
import { ask, element } from "./asking.js";

const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(name) {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    element(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (name === "text") editor.show();
  if (name === "file") showFile((array) => { choose("array"); arrays.show(array); });
}

const arrays = new ArrayView();
const editor = new TextEditor(() => describe());
const outline = new Outline({
  array: (name) => { choose("array"); arrays.show(name); },
  line: (line) => { choose("text"); editor.goTo(line); },
});

for (const [number, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = tabs[(number + step + tabs.length) % tabs.length];
      choose(next.id.slice(4));
      next.focus();
    }
  });
}

async function describe() {
  const facts = await ask("facts");
  element("name").textContent = facts.name;
  document.title = `${facts.name} – asdffs`;
  const state = facts.writable ? "" : ", read-only";
  const warnings = facts.warnings.length ? `; ${facts.warnings.length} warnings: ${facts.warnings[0]}` : "";
  element("facts").textContent = `${facts.size.toLocaleString()} bytes, ${facts.blocks} blocks${state}${warnings}`;
  editor.setWritable(facts.writable);
}

await describe();
await outline.start();
document.body.dataset.ready = "true";
