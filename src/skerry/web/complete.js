// Command completion: what may follow a `/` at the beginning of the message box, and its arguments.

import { byId, make } from "./dom.js";

const MOST = 8;

/** A list over the message box. */
export class Completion {
  #list = byId("commands");
  #message = byId("message");
  #commands = [];
  #models = null;
  #known = null; // the models as choices, once they were asked for
  #found = []; // {label, about, value}: value is the text of the message box after it is chosen
  #place = 0;
  #isPointed = false;
  #closedAt = null;

  constructor() {
    this.#message.addEventListener("blur", () => this.#show([]));
  }

  /**
   * Offer these from now on, `{name, description, acceptsArgs, args}` of each; `models()` returns
   * those that a conversation can have.
   */
  offer(commands, models) {
    this.#models = models;
    if (commands === this.#commands) return;
    this.#commands = commands;
    this.look(); // they may arrive after the slash was typed
  }

  /** Take a key press of the message box; returns whether it was for the list. */
  key(event) {
    if (this.#found.length === 0) return false;
    const { key } = event;
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (step) this.#point((this.#place + step + this.#found.length) % this.#found.length, true);
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
    const [, name, rest] = /^\/(\S*)(?:\s+([^\n]*))?$/.exec(text) ?? [];
    if (text !== this.#closedAt) this.#closedAt = null;
    const isWanted = name !== undefined && document.activeElement === this.#message;
    if (!isWanted || this.#closedAt !== null) this.#show([]);
    else this.#show((rest === undefined ? this.#named(name) : this.#choices(name, rest)).slice(0, MOST));
  }

  #named(word) {
    const named = this.#commands.map((command) => ({ ...command, name: command.name.replace(/^\//, "") }));
    return named.filter(({ name }) => begins(name, word)).map(({ name, description, acceptsArgs }) => ({
      label: `/${name}`,
      about: description ?? "",
      value: `/${name}${acceptsArgs ? " " : ""}`,
    }));
  }

  /** Return what the word that is being written after a command can be. */
  #choices(name, rest) {
    const command = this.#commands.find((one) =>
      [one.name, ...(one.textAliases ?? [])].some((other) => other.replace(/^\//, "") === name.toLowerCase()),
    );
    const words = rest.split(/\s+/);
    const word = words.at(-1);
    const argument = command?.args?.[words.length - 1];
    if (!argument) return [];
    const choices = (argument.choices ?? []).map(({ value }) => ({ value, about: "" }));
    if (argument.name === "model") choices.push(...this.#askModels());
    const before = `/${name} ${words.slice(0, -1).map((one) => `${one} `).join("")}`;
    const fit = choices.filter(({ value }) => begins(value, word));
    if (fit.some(({ value }) => value === word)) return [];
    return fit.map(({ value, about }) => ({ label: value, about, value: before + value }));
  }

  /** Return the models; none until the gateway has sent them. */
  #askModels() {
    if (this.#known) return this.#known;
    this.#known = [];
    this.#models?.().then((models) => {
      this.#known = models.map(({ provider, id, name }) => ({ value: `${provider}/${id}`, about: name }));
      this.look();
    });
    return this.#known;
  }

  #show(found) {
    this.#found = found;
    this.#list.hidden = found.length === 0;
    this.#list.replaceChildren(
      ...found.map(({ label, about: words }, place) => {
        const about = make("span", { className: "about", dir: "auto" }, words);
        const option = make("li", { id: `command-${place}`, role: "option" }, make("b", {}, label), " ", about);
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

  #point(place, byPerson = false) {
    this.#place = place;
    this.#isPointed = byPerson;
    for (const [at, option] of [...this.#list.children].entries()) {
      option.ariaSelected = String(at === place);
      if (at === place) option.scrollIntoView({ block: "nearest" });
    }
    if (this.#found.length > 0) this.#message.setAttribute("aria-activedescendant", `command-${place}`);
    else this.#message.removeAttribute("aria-activedescendant");
  }

  /** Whether the text can be sent: a whole command, or one without the start of an argument. */
  #isWhole() {
    const { value } = this.#message;
    return value === this.#found[this.#place].value.trim() || (value.endsWith(" ") && !this.#isPointed);
  }

  #take(place) {
    const { value } = this.#found[place];
    this.#message.value = value;
    if (!value.endsWith(" ")) this.#close(); // else its argument may be offered
    this.#message.dispatchEvent(new Event("input"));
  }

  #close() {
    this.#closedAt = this.#message.value;
    this.#show([]);
  }
}

function begins(text, word) {
  return text.toLowerCase().startsWith(word.toLowerCase());
}
