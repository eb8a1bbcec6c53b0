// The message box: text, images, commands, send and stop.

import { Attachments } from "./attach.js";
import { Completion } from "./complete.js";
import { byId } from "./dom.js";
import { draft } from "./keep.js";

/** The box. `actions` has `write(text, images)` and `stop()`. */
export class Composer {
  #message = byId("message");
  #session = null;
  #attachments = new Attachments(() => this.arrange());
  #completion = new Completion();

  constructor(actions) {
    this.actions = actions;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#message.addEventListener("keydown", (event) => {
      if (this.#completion.key(event)) return;
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#message.addEventListener("input", () => this.arrange());
    byId("stop").addEventListener("click", () => this.stop());
  }

  /** Write to this conversation from now on, going on with what was begun there. */
  turnTo(session) {
    if (session === this.#session) return;
    this.#session = session;
    this.#message.value = draft.load(session);
    this.#attachments.become([]);
  }

  /** Put a message back into the box; what is begun there stays below it. */
  putBack(text, images) {
    const message = this.#message;
    message.value = [text, message.value].filter(Boolean).join("\n");
    this.#attachments.become([...images, ...this.#attachments.images]);
    message.setSelectionRange(message.value.length, message.value.length);
  }

  /** Offer what the gateway, its model and the conversation allow now. */
  render({ commands, models, images, policy, working }) {
    this.#completion.offer(commands, models);
    this.#attachments.allow(images, policy);
    byId("stop").hidden = !working;
  }

  /** Stop the answer that is being written. */
  async stop() {
    byId("stop").disabled = true;
    await this.actions.stop();
    byId("stop").disabled = false;
    this.focus();
  }

  /** Be ready to type; not where that would open a keyboard over half of the screen. */
  focus() {
    if (matchMedia("(pointer: fine)").matches) this.#message.focus();
  }

  /** Keep the draft, offer commands for it, and let the box be as high as its text. */
  arrange() {
    const message = this.#message;
    if (this.#session) draft.save(this.#session, message.value);
    byId("send").disabled = message.value.trim() === "" && this.#attachments.images.length === 0;
    this.#completion.look();
    message.style.height = "auto";
    message.style.height = `${message.scrollHeight}px`;
  }

  #submit() {
    const text = this.#message.value.trim();
    const { images } = this.#attachments;
    if (byId("send").disabled) return;
    this.#message.value = "";
    this.#attachments.become([]);
    this.actions.write(text, images);
  }
}
