// One document of the memory: its lines, or a box in which it is edited.

import { make, setText } from "../dom.js";
import { button, teller, wrong } from "./pieces.js";

const PART = 400; // lines of a conversation that are asked for at once
const CHANGED = "memory.changed";

/** Shows and edits. `on.saved()` and `on.left()` tell the list beside it. */
export class Editor {
  root = make("div", { className: "editor" });
  path = "";
  #title = make("h3", { dir: "auto" });
  #lines = make("ol", { className: "lines", tabIndex: 0 });
  #box = make("textarea", { ariaLabel: "Text", spellcheck: true, dir: "auto", hidden: true });
  #teller = teller();
  #whose = make("ul", { className: "whose" });
  #theirs = make("details", { className: "theirs", hidden: true });
  #buttons = {};
  #whole = null; // {text, hash} of a file that can be edited
  #next = null; // the line from which on more is to be read
  #marked = [0, 0];

  constructor(panel, on) {
    this.panel = panel;
    this.on = on;
    this.#buttons = {
      back: button("All files", () => this.on.left()),
      edit: button("Edit", () => this.edit()),
      more: button("Show more", () => this.#readMore()),
      cancel: button("Discard", () => this.#cancel()),
      save: button("Save", () => this.#save(), "primary"),
    };
    const { back, edit, more, cancel, save } = this.#buttons;
    back.classList.add("back");
    const acts = make("div", { className: "row end" }, edit, cancel, save);
    this.#box.addEventListener("input", () => this.#arrange());
    this.root.addEventListener("keydown", (event) => this.#key(event));
    const head = make("div", { className: "editor-head" }, back, this.#title, acts);
    this.root.append(head, this.#teller.line, this.#theirs, this.#lines, more, this.#whose, this.#box);
    this.#lines.setAttribute("aria-label", "Lines");
    this.#render();
  }

  /** Whether something was written that is not saved. */
  get isDirty() {
    return !this.#box.hidden && this.#box.value !== this.#shown;
  }

  /** Open a document, with these lines marked; one that has changes stays. */
  async open(path, first = 0, last = first) {
    if (this.isDirty) {
      this.#teller.tell("bad", `${this.path} has changes. Save or discard them first.`);
      return;
    }
    this.path = path;
    this.#marked = [first, last];
    this.#box.hidden = true;
    this.#teller.tell("", "");
    try {
      await this.#read();
    } catch (error) {
      this.#show("", []);
      this.#teller.tell("bad", ...wrong(error));
    }
    this.#render();
    this.#lines.querySelector("[data-marked]")?.scrollIntoView({ block: "center" });
  }

  /** Edit the file; one that is new begins with this text. */
  edit(text = "") {
    if (!this.#whole) return;
    this.#box.value = this.#whole.text || text;
    this.#box.hidden = false;
    this.#render();
    this.#goTo(this.#marked[0]);
    this.#box.focus();
  }

  get #shown() {
    return this.#whole?.text ?? "";
  }

  async #read() {
    this.#whole = null;
    this.#next = null;
    if (this.#isElsewhere) {
      this.#show("", []);
      this.#next = 1;
      await this.#readMore(Math.max(PART, this.#marked[1]));
      return;
    }
    const { text, hash, notes } = await this.panel.ask("memory.file", { path: this.path });
    this.#whole = { text: text.replaceAll("\r\n", "\n"), hash };
    this.#show(this.#whole.text, notes);
    if (!hash) this.#teller.tell("", "This file does not exist yet.");
  }

  /** Whether only the memory itself has it: a conversation, or a document of QMD. */
  get #isElsewhere() {
    return /^(sessions|qmd)\//.test(this.path);
  }

  async #readMore(lines = PART) {
    try {
      const params = { path: this.path, from: this.#next, lines };
      const { text, nextFrom, hint } = await this.panel.ask("memory.get", params);
      const count = text ? text.split("\n").length : 0;
      if (text) this.#append(text, this.#next);
      this.#next = nextFrom ?? (count === lines ? this.#next + count : null);
      if (hint && this.#lines.childElementCount === 0) this.#teller.tell("", hint);
    } catch (error) {
      this.#next = null;
      this.#teller.tell("bad", ...wrong(error));
    }
    this.#render();
  }

  #show(text, notes) {
    this.#lines.replaceChildren();
    this.#whose.replaceChildren(
      ...notes.map((note) => make("li", {}, `Line ${note.line}: ${whose(note)}`)),
    );
    if (text) this.#append(text.replace(/\n$/, ""), 1);
  }

  #append(text, from) {
    const [first, last] = this.#marked;
    const made = text.split("\n").map((line, place) => {
      const number = from + place;
      const shown = line.replace(/\s*<!-- skerry:[^>]*-->\s*$/, "");
      const row = make("li", { value: number, dir: "auto" }, shown || "\u200b");
      if (first && number >= first && number <= last) row.dataset.marked = "";
      return row;
    });
    this.#lines.append(...made);
  }

  async #save() {
    const text = this.#box.value;
    const { hash } = this.#whole;
    this.#buttons.save.disabled = true;
    try {
      const given = { path: this.path, text, baseHash: hash };
      const saved = await this.panel.ask("memory.save", given);
      this.#whole = { text, hash: saved.hash };
      this.#box.hidden = this.#theirs.hidden = true;
      this.#teller.tell("good", "Saved. The next search finds it.");
      await this.#read();
      this.on.saved();
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
      if (error.details?.code === CHANGED) await this.#compare();
    } finally {
      this.#buttons.save.disabled = false;
      this.#render();
    }
  }

  /** Show what the file says now beside what was written, and let the person choose. */
  async #compare() {
    const now = await this.panel.ask("memory.file", { path: this.path });
    const keep = button("Overwrite it with my text", () => {
      this.#whole = { text: this.#whole.text, hash: now.hash };
      this.#save();
    });
    const take = button("Load that content", () => {
      this.#whole = { text: now.text, hash: now.hash };
      this.#box.value = now.text;
      this.#theirs.hidden = true;
      this.#teller.tell("", "This is the present content of the file.");
      this.#arrange();
    });
    const text = make("pre", { dir: "auto" }, now.text || "(the file is gone)");
    this.#theirs.replaceChildren(
      make("summary", {}, "Present content of the file"),
      text,
      make("div", { className: "row end" }, take, keep),
    );
    this.#theirs.open = true;
    this.#theirs.hidden = false;
  }

  #cancel() {
    this.#box.hidden = this.#theirs.hidden = true;
    this.open(this.path, ...this.#marked);
    this.#buttons.edit.focus();
  }

  /** Put the caret at the beginning of a line. */
  #goTo(line) {
    const before = this.#box.value.split("\n").slice(0, Math.max(line - 1, 0));
    const place = before.join("\n").length + (before.length > 0 ? 1 : 0);
    this.#box.setSelectionRange(place, place);
  }

  #key(event) {
    if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || this.#box.hidden) return;
    event.preventDefault();
    if (!this.#buttons.save.disabled) this.#save();
  }

  #arrange() {
    this.#buttons.save.disabled = !this.isDirty;
  }

  #render() {
    const isEditing = !this.#box.hidden;
    const { edit, cancel, save, more, back } = this.#buttons;
    setText(this.#title, this.path || "Choose a file");
    edit.hidden = isEditing || !this.#whole || !this.panel.can("memory.save");
    cancel.hidden = save.hidden = !isEditing;
    more.hidden = isEditing || this.#next === null;
    back.hidden = !this.path;
    this.#lines.hidden = isEditing || this.#lines.childElementCount === 0;
    this.#whose.hidden = isEditing || this.#whose.childElementCount === 0;
    this.#arrange();
  }
}

/** Return the author, place and time of a note. */
export function whose({ origin, where, at, edited }) {
  const who = origin === "owner" ? "you" : `another person (${origin})`;
  const place = where === "gateway" ? "at the gateway" : `in ${where}`;
  const words = edited ? ", changed by hand since" : "";
  return `written by ${who}, ${place}, ${new Date(at).toLocaleString()}${words}`;
}
