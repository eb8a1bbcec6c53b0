// The line above the message box: the origins of text from others in a conversation.

import { byId, setText } from "./dom.js";
import { toast } from "./toast.js";

const ENDS = ["final", "aborted", "error"];
const MOST = 120; // characters of a call that are shown
const WORDS = {
  web: "the web",
  plugin: "a plugin",
  known: "another person",
  stranger: "a stranger",
  memory: "a summary or a note of such text",
  tool: "the result of a tool",
};

/** The line. `page` has `gateway`, the one there is now. */
export class TaintLine {
  #key = ""; // of the conversation that was read last
  #online = false;
  #state = null;

  constructor(page) {
    this.page = page;
    byId("taint-clear").addEventListener("click", () => this.#clear());
  }

  /** Read anew when a run of the conversation that is shown has ended, or somebody cleared it. */
  follow(gateway) {
    this.#key = "";
    const isShown = (sessionKey) => sessionKey === gateway.fullKey(gateway.session.key);
    gateway.on("chat", ({ state, sessionKey }) => {
      if (ENDS.includes(state) && isShown(sessionKey)) void this.#read();
    });
    gateway.on("sessions.changed", ({ reason, sessionKey }) => {
      if (["taint", "reset"].includes(reason) && isShown(sessionKey)) void this.#read();
    });
  }

  /** Show it; another conversation, or a new connection, is read first. */
  render({ session, online }) {
    const isNew = session.key !== this.#key || (online && !this.#online);
    this.#online = online;
    if (session.key !== this.#key) this.#state = null;
    this.#key = session.key;
    if (isNew && online) void this.#read();
    this.#show();
  }

  async #read() {
    const { gateway } = this.page;
    const { key } = gateway.session;
    if (!gateway.can("sessions.taint")) return;
    const state = await gateway.quietly("sessions.taint", { key });
    if (key !== this.#key) return;
    this.#state = state;
    this.#show();
  }

  #show() {
    byId("taint").hidden = !this.#state?.tainted;
    if (!this.#state?.tainted) return;
    const { origins, sources } = this.#state;
    const from = origins.map((origin) => WORDS[origin] ?? origin).join(", ");
    const last = sources.findLast(({ tool }) => tool);
    const call = last ? `, last by ${last.tool} ${last.call ?? ""}` : "";
    const why = call.length > MOST ? `${call.slice(0, MOST)}…` : call;
    const asks = "The agent asks you before it acts outside the sandbox.";
    setText(byId("taint-text"), `This conversation contains text from others (${from}${why}). ${asks}`);
  }

  /** Trust what this line was about, and nothing that arrived since. */
  async #clear() {
    const { gateway } = this.page;
    const { through } = this.#state;
    try {
      const key = this.#key;
      const state = await gateway.request("sessions.taint.clear", { key, through });
      if (key === this.#key) this.#state = state;
      toast("Cleared. Later text from others is shown here again.");
    } catch (error) {
      toast(error.message);
    }
    this.#show();
  }
}
