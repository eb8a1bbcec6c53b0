// One conversation with the gateway: sends, and stays in step with the transcript.

import * as chat from "./chat.js";
import { freshId } from "./ids.js";
import { unsent } from "./keep.js";
import { LostError } from "./socket.js";

const NEWEST = 80; // messages of the transcript that are asked for at first
const OLDER = 120; // and each time a person wants older ones
const STALE_MS = 60 * 60 * 1000; // an unsent message older than this is not sent unasked
const BUSY_MS = 2000; // wait before sending again when the gateway was busy and named no time

/**
 * One conversation. `key` is what requests name it by; `gateway` has `request(method, params)`,
 * `fullKey(key)`, `online`, `markdown`, `probe()`, and `changed()`, called after every change of
 *   conversation  the state of chat.js
 *   problem       why the transcript cannot be read, or ""
 *   loaded        whether the transcript has been read
 *   preparing     whether it is about to be shown
 */
export class Session {
  conversation = chat.begin();
  problem = "";
  loaded = false;
  preparing = false;
  #gateway;
  #syncing = false;
  #syncAgain = false;
  #sending = false;

  constructor(key, gateway) {
    this.key = key;
    this.#gateway = gateway;
    for (const message of unsent.all().filter((one) => one.session === key)) {
      this.conversation = chat.write(this.conversation, message);
      if (Date.now() - message.at < STALE_MS) continue;
      this.#mark(message.key, "failed", "It was written during an earlier visit.");
    }
  }

  /** Come into step after the connection is there: read, then send what waits. */
  async catchUp() {
    await this.sync();
    for (const { key, state } of this.conversation.outgoing) {
      if (!["failed", "dropped"].includes(state)) this.#mark(key, "waiting");
    }
    this.#sendOn();
  }

  /** Say something; it is kept until the transcript has it. */
  write(text, images = []) {
    const message = { key: freshId(), session: this.key, text, images, at: Date.now() };
    unsent.put(message);
    this.#become(chat.write(this.conversation, message));
    this.send(message.key);
  }

  /** Send a written message; again with the same key if need be, so that it never comes twice. */
  send(key) {
    const message = this.conversation.outgoing.find((own) => own.key === key);
    if (message?.state === "dropped") {
      this.discard(key); // its key has had its run
      this.write(message.text, message.images);
      return;
    }
    this.#mark(key, "waiting");
    this.#sendOn();
  }

  /** Forget a message that was not sent. */
  discard(key) {
    this.#become(chat.drop(this.conversation, key));
  }

  /** Take back a message that waits for its turn; return whether that was in time. */
  takeBack(key) {
    return this.#abort(key);
  }

  /** Stop the run that works now. Does nothing when it has ended, or the connection is lost. */
  async stop() {
    const run = chat.working(this.conversation);
    if (run) await this.#abort(run.runId);
  }

  async #abort(runId) {
    try {
      const params = { sessionKey: this.key, runId };
      const { aborted } = await this.#gateway.request("chat.abort", params);
      if (!aborted) await this.sync();
      return aborted;
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
      return false;
    }
  }

  /** Ask the last message again, whose answer failed; `item` is what the page has of it. */
  async retry({ text, images }) {
    try {
      await this.#gateway.request("chat.retry", { sessionKey: this.key });
    } catch (error) {
      if (!(error instanceof LostError)) this.write(text, images); // nothing of it is kept there
    }
  }

  /** Take an event of the gateway; other conversations' change nothing. */
  event(name, payload) {
    const hear = { chat: chat.hear, agent: chat.watch }[name];
    if (!hear) return;
    const before = this.conversation;
    this.#become(hear(before, payload));
    const ended = this.conversation.runs.length < before.runs.length;
    // The transcript also has the cost of an answer.
    if (this.conversation.wants || ended) this.sync();
  }

  /** Bring the transcript up to date; asked for again meanwhile, it is read once more. */
  async sync() {
    this.#syncAgain = true;
    if (this.#syncing) return;
    this.#syncing = true;
    this.#become(chat.name(this.conversation, this.#gateway.fullKey(this.key)));
    try {
      while (this.#syncAgain) {
        this.#syncAgain = false;
        const history = await this.#history({ limit: NEWEST });
        // At once: events after this answer are newer.
        this.#become(chat.remember(this.conversation, history));
        if (!this.loaded) await this.#prepare(history);
        this.loaded = true;
      }
      this.#report("");
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
    } finally {
      this.#syncing = false;
    }
  }

  /** Show older messages too. */
  async showEarlier() {
    try {
      const offset = this.conversation.messages.length;
      const history = await this.#history({ limit: OLDER, offset });
      await this.#prepare(history);
      this.#become(chat.prepend(this.conversation, history));
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
    }
  }

  /** Return all messages of the transcript. */
  async whole() {
    const messages = [];
    for (let more = true; more; ) {
      const part = await this.#history({ limit: 500, offset: messages.length, maxChars: 500_000 });
      messages.unshift(...(part.messages ?? []));
      more = part.hasMore === true && part.messages.length > 0;
    }
    return messages;
  }

  #history(params) {
    return this.#gateway.request("chat.history", { sessionKey: this.key, ...params });
  }

  /** Have the answers rendered before they are shown, so that nothing jumps. */
  async #prepare(history) {
    this.preparing = !this.loaded;
    try {
      await this.#gateway.markdown.prepare(chat.answersOf(history));
    } finally {
      this.preparing = false;
    }
  }

  /** Take the next state; what is no longer outgoing need not be kept by the browser. */
  #become(next) {
    if (next === this.conversation) return;
    const still = new Set(next.outgoing.map((message) => message.key));
    for (const { key } of this.conversation.outgoing) if (!still.has(key)) unsent.drop(key);
    this.conversation = next;
    this.#gateway.changed();
  }

  /** Send waiting messages, the oldest first, each after the one before was accepted, in order. */
  async #sendOn() {
    if (this.#sending) return;
    this.#sending = true;
    const isNext = ({ state }) => state === "waiting";
    while (this.#gateway.online) {
      const next = this.conversation.outgoing.find(isNext);
      if (!next || !(await this.#offer(next))) break;
    }
    this.#sending = false;
  }

  /** Send one message; return whether its fate is settled, or it waits for a better time. */
  async #offer({ key, text, images }) {
    this.#mark(key, "sending");
    const params = { sessionKey: this.key, message: text, idempotencyKey: key };
    const attachments = images.map((image) => ({ type: "image", ...image }));
    if (attachments.length > 0) params.attachments = attachments;
    try {
      const { status } = await this.#gateway.request("chat.send", params);
      await this.#taken(key, status);
      return true;
    } catch (error) {
      const isLost = error instanceof LostError;
      const later = isLost || error.retryable;
      this.#mark(key, later ? "waiting" : "failed", isLost ? "" : error.message);
      if (later && !isLost) this.#sendLater(error);
      return !later;
    }
  }

  async #taken(key, status) {
    if (["started", "accepted", "in_flight"].includes(status)) {
      this.#become(chat.accepted(this.conversation, key));
      return;
    }
    await this.sync(); // it ran before: the transcript has it
    this.#become(chat.drop(this.conversation, key));
  }

  #sendLater({ retryAfterMs = BUSY_MS }) {
    this.#gateway.probe(); // its disk may be full
    setTimeout(() => this.#sendOn(), retryAfterMs);
  }

  #mark(key, fate, problem = "") {
    this.#become(chat.mark(this.conversation, key, fate, problem));
  }

  #report(problem) {
    this.problem = problem;
    this.#gateway.changed();
  }
}
