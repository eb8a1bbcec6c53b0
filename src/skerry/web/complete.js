// Command completion: what may follow a `/` at the beginning of the message box.

import { byId, make } from "./dom.js";

const MOST = 8;

/** A list over the message box. */
export class Completion {
  #list = byId("commands");
  #message = byId("message");
  #commands = [];
  #found = [];
  #place = 0;
  #closedAt = null;

  constructor() {
    this.#message.addEventListener("blur", () => this.#show([]));
  }

  /** Offer these from now on, `{name, description, acceptsArgs}` of each. */
  offer(commands) {
    if (commands === this.#commands) return;
    this.#commands = commands;
    this.look(); // they may come after the slash
  }

  /** Take a key press of the message box; returns whether it was for the list. */
  key(event) {
    if (this.#found.length === 0) return false;
    const { key } = event;
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (step) this.#point((this.#place + step + this.#found.length) % this.#found.length);
    else if (key === "Tab" || (key === "Enter" && !this.#isWhole())) this.#take(this.#place);
    else if (key === "Escape") this.#close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  /** Offer what fits the text of the message box as it is now. */
  look() {
    const text = this.#message.value;
    const [, word] = /^\/(\S*)$/.exec(text) ?? [];
    if (text !== this.#closedAt) this.#closedAt = null;
    const isWanted = word !== undefined && document.activeElement === this.#message;
    if (!isWanted || this.#closedAt !== null) {
      this.#show([]);
      return;
    }
    const wanted = word.toLowerCase();
    const named = this.#commands.map((command) => ({ ...command, name: command.name.replace(/^\//, "") }));
    this.#show(named.filter(({ name }) => name.toLowerCase().startsWith(wanted)).slice(0, MOST));
  }

  #show(found) {
    this.#found = found;
    this.#list.hidden = found.length === 0;
    this.#list.replaceChildren(
      ...found.map(({ name, description }, place) => {
        const about = make("span", { className: "about", dir: "auto" }, description ?? "");
        const option = make("li", { id: `command-${place}`, role: "option" }, make("b", {}, `/${name}`), " ", about);
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault(); // keeps the focus in the message box
          this.#take(place);
        });
        return option;
      }),
    );
    this.#message.setAttribute("aria-controls", "commands");
    this.#point(0);
  }

  #point(place) {
    this.#place = place;
    for (const [at, option] of [...this.#list.children].entries()) {
      option.ariaSelected = String(at === place);
      if (at === place) option.scrollIntoView({ block: "nearest" });
    }
    if (this.#found.length > 0) this.#message.setAttribute("aria-activedescendant", `command-${place}`);
    else this.#message.removeAttribute("aria-activedescendant");
  }

  /** Whether the whole command stands there, so that Enter sends it. */
  #isWhole() {
    return this.#message.value === `/${this.#found[this.#place].name}`;
  }

  #take(place) {
    const { name, acceptsArgs } = this.#found[place];
    this.#message.value = `/${name}${acceptsArgs ? " " : ""}`;
    this.#close();
    this.#message.dispatchEvent(new Event("input"));
  }

  #close() {
    this.#closedAt = this.#message.value;
    this.#show([]);
  }
}
