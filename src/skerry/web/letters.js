// The dialog of replies that were not delivered: each is sent again or given up by a person.

import { make, setText, when } from "./dom.js";

const STATES = { failed: "not delivered", unknown: "may not have arrived" };

/** The dialog. `page` has `gateway` and `undelivered`. */
export class Panel {
  #dialog = make("dialog", { className: "setup inbox", ariaLabel: "Not delivered" });
  #list = make("ul", { className: "questions" });
  #told = make("p", { className: "help", role: "status" });
  #shown = "";

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "quiet" }, "Close");
    const form = make("form", { method: "dialog" }, make("div", { className: "row end" }, close));
    this.#dialog.append(make("h2", {}, "Not delivered"), this.#told, this.#list, form);
    document.body.append(this.#dialog);
  }

  /** Open it, with what is not delivered now. */
  open() {
    this.#dialog.showModal();
    this.#shown = "";
    this.render();
    void this.page.undelivered.read();
  }

  /** Show the parts; those that are the same keep their buttons. */
  render() {
    if (!this.#dialog.open) return;
    const { parts } = this.page.undelivered;
    const shown = parts.map(({ serial, state }) => `${serial} ${state}`).join();
    if (shown !== this.#shown || parts.length === 0) {
      this.#shown = shown;
      this.#list.replaceChildren(...parts.map((part) => this.#row(part)));
    }
    setText(this.#told, parts.length === 0 ? "Every reply is delivered." : "");
  }

  #row(part) {
    const { serial, state, to, error, text, createdAtMs } = part;
    const about = `${to.channel} · ${to.peer} · ${STATES[state] ?? state} · ${when(createdAtMs)}`;
    const again = make("button", { type: "button", className: "primary" }, "Send again");
    const drop = make("button", { type: "button", className: "quiet" }, "Give up");
    again.addEventListener("click", () => this.#decide("outbox.retry", serial, again));
    drop.addEventListener("click", () => this.#decide("outbox.drop", serial, drop));
    return make(
      "li",
      {},
      make("p", { className: "asker" }, about),
      make("p", { dir: "auto" }, text),
      make("p", { className: "help", dir: "auto" }, error ?? ""),
      make("div", { className: "row end" }, drop, again),
    );
  }

  async #decide(method, serial, button) {
    button.disabled = true;
    try {
      await this.page.gateway.request(method, { serial });
    } catch (error) {
      setText(this.#told, error.message);
      button.disabled = false;
      return;
    }
    await this.page.undelivered.read();
  }
}
