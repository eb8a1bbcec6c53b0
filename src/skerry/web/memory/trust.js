// The panel's tab of files that a prompt includes as data only: reasons, content, trust.

import { make, when } from "../dom.js";
import { button, teller, wrong } from "./pieces.js";

const WRITERS = {
  hand: "copied by hand",
  gateway: "written by a person at the gateway",
  owner: "confirmed by the owner",
};

/** The tab. `panel` has `ask(method, params)` and `can(method)`. */
export class TrustView {
  root = make("section", { className: "memory-trust" });
  #help;
  #list = make("ul", { className: "notes" });
  #teller = teller();

  constructor(panel) {
    this.panel = panel;
    const help =
      "These files are sent with every message, and their text may not be yours: the model gets them as data, not as instructions. Read a file, then trust its present content, or write it again.";
    this.#help = make("p", { className: "help", hidden: true }, help);
    this.root.append(this.#help, this.#teller.line, this.#list);
  }

  /** Read what there is. */
  show() {
    this.#teller.tell("");
    this.#read();
  }

  async #read() {
    try {
      const { files } = await this.panel.ask("files.list");
      this.#list.replaceChildren(...files.map((file) => this.#row(file)));
      this.#help.hidden = files.length === 0;
      if (files.length > 0) return;
      this.#list.append(make("li", { className: "none" }, "Every file that a prompt includes is trusted."));
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
  }

  #row(file) {
    const { path, reason, writer, recordedAt } = file;
    const mark = make("span", { className: "trust" }, "not trusted");
    mark.dataset.kind = "wait";
    const written = WRITERS[writer] ?? (writer ? `written by ${writer}` : "its writer is unknown");
    const about = [written, recordedAt && when(recordedAt)].filter(Boolean).join(" · ");
    const row = make("li", {});
    const read = button(`Read ${path}`, () => this.#open(path, row, read));
    const name = make("p", { className: "name", dir: "auto" }, path);
    const head = make("div", { className: "hit-head" }, mark, make("span", { className: "about" }, about), read);
    row.append(name, make("p", { className: "why" }, `Not trusted: ${reason}.`), head);
    return row;
  }

  /** Show the content of a file, and offer to trust it. */
  async #open(path, row, pressed) {
    try {
      const { file } = await this.panel.ask("files.get", { path });
      const label = `Content of ${path}`;
      const text = make("pre", { className: "held", dir: "auto", tabIndex: 0, ariaLabel: label }, file.content);
      text.setAttribute("role", "region");
      const trust = button(`Trust ${path} as it is`, () => this.#trust(file, trust), "primary");
      pressed.remove();
      row.append(text, trust);
      text.focus();
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
  }

  /** Trust the content that was read; the first press only asks. */
  async #trust({ path, hash }, pressed) {
    if (!pressed.dataset.asked) {
      pressed.dataset.asked = "yes";
      pressed.textContent = `Really trust ${path}? Every later conversation follows its instructions`;
      return;
    }
    try {
      await this.panel.ask("files.trust", { path, hash });
      await this.#read();
      this.#teller.tell("good", `${path} is trusted with its present content.`);
    } catch (error) {
      await this.#read();
      this.#teller.tell("bad", ...wrong(error));
    }
  }
}
