// The panel's notes with author, place and time; adds and removes them.

import { make } from "../dom.js";
import { whose } from "./editor.js";
import { button, teller, wrong } from "./pieces.js";

const MOST = 500;

/** The tab. `panel` has `ask(method, params)`, `can(method)`, `openFile(path, line)`. */
export class NotesView {
  root = make("section", { className: "memory-notes" });
  #text = make("input", { ariaLabel: "Note", placeholder: "The dentist is Dr. Maro.", maxLength: 4000 });
  #section = make("input", { ariaLabel: "Heading in MEMORY.md", placeholder: "Heading, or empty for today's log", maxLength: 100 });
  #list = make("ul", { className: "notes" });
  #teller = teller();

  constructor(panel) {
    this.panel = panel;
    const form = make("form", { className: "ask" }, this.#text, this.#section);
    form.append(make("button", { className: "primary" }, "Add note"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#write();
    });
    this.root.append(form, this.#teller.line, this.#list);
  }

  /** Read what there is. */
  show() {
    this.#read();
  }

  async #read() {
    try {
      const { notes } = await this.panel.ask("memory.notes", { limit: MOST });
      this.#list.replaceChildren(...notes.map((note) => this.#row(note)));
      if (notes.length > 0) return;
      const text = "No notes yet. Notes are lines of MEMORY.md and of the daily logs with a record of their author. Lines that you write there by hand are not notes, but are remembered too.";
      this.#list.append(make("li", { className: "none" }, text));
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
  }

  #row(note) {
    const isTrusted = note.origin === "owner";
    const mark = make("span", { className: "trust" }, isTrusted ? "trusted" : "not trusted");
    mark.dataset.kind = isTrusted ? "good" : "wait";
    const place = button(`${note.path}, line ${note.line}`, () => this.panel.openFile(note.path, note.line), "place");
    const undo = button("Remove", () => this.#takeOut(note, undo));
    undo.ariaLabel = `Remove: ${note.text}`;
    undo.disabled = note.edited;
    if (note.edited) undo.title = "It was changed by hand: remove it by hand.";
    const about = make("span", { className: "about" }, whose(note));
    const text = make("p", { dir: "auto" }, note.text);
    return make("li", {}, text, make("div", { className: "hit-head" }, mark, about, place, undo));
  }

  async #write() {
    const [text, section] = [this.#text.value.trim(), this.#section.value.trim()];
    if (!text) return;
    try {
      const { path } = await this.panel.ask("memory.write", section ? { text, section } : { text });
      this.#text.value = "";
      this.#teller.tell("good", `Added to ${path}.`);
      await this.#read();
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
    this.#text.focus();
  }

  /** Remove a note; the first press only asks. */
  async #takeOut(note, pressed) {
    if (!pressed.dataset.asked) {
      pressed.dataset.asked = "yes";
      pressed.textContent = "Really remove it?";
      return;
    }
    try {
      const { path } = await this.panel.ask("memory.undo", { id: note.id });
      this.#teller.tell("good", `Removed from ${path}.`);
      await this.#read();
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
  }
}
