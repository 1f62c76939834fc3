// The text of the tree in an editor; saves, refusals and the history.

import { ask, element, make, urlOf } from "./asking.js";

/* global CodeMirror */

/** Characters of a text that is shown without colours and without wrapped lines, which take long to compute. */
const LARGE = 2_000_000;

export class TextEditor {
  /** `saved()` is called after each save. */
  constructor(saved) {
    this.saved = saved;
    this.version = "";
    this.text = "";
    this.editor = null;
    this.marked = null;
    this.writable = false;
    element("save").addEventListener("click", () => this.save());
    element("reload").addEventListener("click", () => this.read());
    element("history").addEventListener("change", (event) => this.restore(event.target.value));
    window.addEventListener("beforeunload", (event) => { if (this.changed()) event.preventDefault(); });
  }

  setWritable(writable) {
    this.writable = writable;
    this.editor?.setOption("readOnly", !writable);
    this.noteChange();
  }

  async show() {
    if (this.editor) return this.editor.refresh();
    this.say("reading the text…");
    this.editor = CodeMirror(element("editor"), {
      mode: "yaml", lineNumbers: true, lineWrapping: true, readOnly: !this.writable,
      extraKeys: { "Ctrl-S": () => this.save(), "Cmd-S": () => this.save(), Tab: false, "Shift-Tab": false, "Ctrl-F": "findPersistent", "Cmd-F": "findPersistent" },
    });
    this.editor.getInputField().setAttribute("aria-label", "The tree as YAML");
    this.editor.getScrollerElement().tabIndex = 0; // so that the keyboard can scroll it, too
    this.editor.on("change", () => this.noteChange());
    await this.read();
  }

  changed() {
    return this.editor !== null && this.editor.getValue() !== this.text;
  }

  noteChange() {
    element("save").disabled = !this.writable || !this.changed();
  }

  async read() {
    const answer = await fetch("/api/text");
    if (!answer.ok) return this.say((await answer.json()).error);
    this.version = answer.headers.get("etag").replaceAll('"', "");
    this.text = await answer.text();
    const large = this.text.length > LARGE;
    this.editor.setOption("mode", large ? null : "yaml");
    this.editor.setOption("lineWrapping", !large);
    this.editor.setValue(this.text);
    this.mark(null);
    this.say("");
    this.noteChange();
    await this.listHistory();
  }

  async save() {
    if (!this.changed()) return;
    const text = this.editor.getValue();
    this.say("saving…");
    const answer = await fetch("/api/text", { method: "PUT", body: text, headers: { "If-Match": this.version } });
    const found = await answer.json();
    if (!answer.ok) {
      this.mark(found.line);
      return this.say(answer.status === 409
        ? `Not saved: ${found.error}. Your text stays here; copy it, and read the file again.`
        : `Not saved: ${found.error}`);
    }
    [this.text, this.version] = [text, found.version];
    this.mark(null);
    this.say("saved");
    this.noteChange();
    await this.listHistory();
    this.saved();
  }

  /** Mark the line of a refusal, and go there. */
  mark(line) {
    if (this.marked) this.editor.removeLineClass(this.marked, "background", "refused");
    this.marked = line ? this.editor.addLineClass(line - 1, "background", "refused") : null;
    if (line) this.goTo(line);
  }

  async goTo(line) {
    await this.show();
    this.editor.setCursor(line - 1, 0);
    this.editor.scrollIntoView(null, 200);
    this.editor.focus();
  }

  async listHistory() {
    const trees = await ask("history");
    const options = trees.map((one) => {
      const option = make("option", `${new Date(one.time * 1000).toLocaleString()}, ${one.size} bytes`);
      option.value = one.number;
      return option;
    });
    const first = make("option", trees.length ? "restore…" : "empty");
    first.value = "";
    element("history").replaceChildren(first, ...options);
  }

  async restore(number) {
    if (!number) return;
    const answer = await fetch(urlOf(`history/${number}`));
    if (!answer.ok) return this.say((await answer.json()).error);
    this.editor.setValue(await answer.text());
    this.say("This is the old text. Save makes it the tree again.");
  }

  say(sentence) {
    element("said").textContent = sentence;
  }
}
