// How many parts of replies were not delivered; the header shows it, channels.js lists them.

import { byId, setText } from "./dom.js";

const POLL_MS = 15_000;
const LIST = "outbox.list";
const DEAD = ["failed", "unknown"];

/** What was given up, or may not have arrived. `page` has `gateway`, the one there is now. */
export class Undelivered {
  parts = [];
  #online = false;

  constructor(page) {
    this.page = page;
    setInterval(() => document.visibilityState === "visible" && this.read(), POLL_MS);
  }

  /** Read them, where this gateway has an outbox. */
  async read() {
    const { gateway } = this.page;
    if (!gateway?.online || !gateway.can(LIST)) return;
    const found = await gateway.quietly(LIST, { states: DEAD });
    if (!found) return;
    this.parts = found.parts;
    gateway.changed();
  }

  /** Show how many there are; read them once the connection is there. */
  render() {
    const { online } = this.page.gateway;
    if (online && !this.#online) void this.read();
    this.#online = online;
    byId("undelivered").hidden = this.parts.length === 0;
    setText(byId("undelivered-count"), String(this.parts.length));
  }
}
