// One session with the gateway: keeps the conversation, sends, and stays in step with the transcript.

import * as chat from "./chat.js";
import { freshId } from "./ids.js";
import { unsent } from "./keep.js";
import { Connection, LostError } from "./socket.js";

const SESSION = "main";
const FIRST_LIMIT = 200; // messages of the transcript that are asked for at first
const MOST = 1000; // and on demand; the wire's bound
const STALE_MS = 60 * 60 * 1000; // an unsent message older than this is not sent unasked
const BUSY_MS = 2000; // wait before sending again when the gateway was busy and named no time
const MODEL_POLL_MS = 2000; // while the model starts

/**
 * What a page shows of one conversation. `changed()` is called after every change of
 *   conversation  the state of chat.js
 *   phase         {phase: connecting | online | offline | refused, since}
 *   hello         what the gateway said of itself, or null
 *   model         the result of `models.status`, or null
 *   problem       why the transcript cannot be read, or ""
 * and `refused(error)` when the gateway does not let this page in.
 */
export class Session {
  conversation = chat.begin();
  phase = { phase: "connecting", since: null };
  hello = null;
  model = null;
  problem = "";
  #connection;
  #limit = FIRST_LIMIT;
  #syncing = false;
  #syncAgain = false;
  #modelTimer = 0;

  constructor(url, token, { changed, refused }) {
    this.changed = changed;
    for (const { key, text, at } of unsent.all()) {
      this.conversation = chat.write(this.conversation, { key, text, at });
      if (Date.now() - at > STALE_MS) this.#mark(key, "failed", "It is from an earlier visit.");
    }
    this.#connection = new Connection(url, token, freshId(), {
      state: (state) => this.#connected(state),
      event: (name, payload) => this.#event(name, payload),
      gap: () => this.#sync(),
      refused: (error) => {
        this.phase = { phase: "refused", since: null };
        refused(error);
      },
    });
  }

  /** Connect now, also while a later try is planned. */
  open() {
    this.#connection.open();
  }

  /** Replace a connection that died unnoticed, as when the machine slept. */
  check() {
    this.#connection.check();
  }

  /** End the connection; the session is of no more use. */
  close() {
    clearTimeout(this.#modelTimer);
    this.#connection.close();
  }

  /** Whether older messages than those shown can be had. */
  get hasEarlier() {
    return this.conversation.more && this.#limit < MOST;
  }

  /** Show the older messages too. */
  showEarlier() {
    this.#limit = MOST;
    this.#sync();
  }

  /** Say something; it is kept until the transcript has it. */
  write(text) {
    const message = { key: freshId(), text, at: Date.now() };
    unsent.put(message);
    this.#become(chat.write(this.conversation, message));
    this.send(message.key);
  }

  /** Send a written message; again with the same key if need be, so that it never comes twice. */
  async send(key) {
    const message = this.conversation.outgoing.find((own) => own.key === key);
    if (!message) return;
    this.#mark(key, this.#connection.online ? "sending" : "waiting");
    try {
      const params = { sessionKey: SESSION, message: message.text, idempotencyKey: key };
      const { status } = await this.#connection.request("chat.send", params);
      await this.#taken(key, status);
    } catch (error) {
      if (error instanceof LostError) this.#mark(key, "waiting");
      else if (error.retryable) this.#sendLater(key, error);
      else this.#mark(key, "failed", error.message);
    }
  }

  /** Take back a message that was not sent. */
  discard(key) {
    this.#become(chat.drop(this.conversation, key));
  }

  /** Stop the run that works now. Does nothing when it has ended, or the connection is lost. */
  async stop() {
    const [run] = this.conversation.runs;
    if (!run) return;
    try {
      const params = { sessionKey: SESSION, runId: run.runId };
      const { aborted } = await this.#connection.request("chat.abort", params);
      if (!aborted) await this.#sync();
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
    }
  }

  /** Enter another model; returns the new status. Raises what the gateway answers. */
  async configure(values) {
    const status = await this.#connection.request("models.configure", values);
    this.#setModel(status);
    return status;
  }

  #connected({ phase, since, hello }) {
    this.phase = { phase, since };
    if (phase === "online") {
      this.hello = hello;
      this.#sync().then(() => this.#sendAll());
      this.#refreshModel();
    }
    this.changed();
  }

  #event(name, payload) {
    const hear = { chat: chat.hear, agent: chat.watch }[name];
    if (!hear) return;
    this.#become(hear(this.conversation, payload));
    if (this.conversation.wants) this.#sync();
    if (name === "chat" && payload.state === "error") this.#refreshModel();
  }

  /** Take the next state; what is no longer outgoing need not be kept by the browser. */
  #become(next) {
    const still = new Set(next.outgoing.map((message) => message.key));
    for (const { key } of this.conversation.outgoing) if (!still.has(key)) unsent.drop(key);
    this.conversation = next;
    this.changed();
  }

  /** Bring the transcript up to date; asked for again meanwhile, it is read once more. */
  async #sync() {
    this.#syncAgain = true;
    if (this.#syncing) return;
    this.#syncing = true;
    try {
      while (this.#syncAgain) {
        this.#syncAgain = false;
        const params = { sessionKey: SESSION, limit: this.#limit };
        const history = await this.#connection.request("chat.history", params);
        this.#become(chat.remember(this.conversation, history));
      }
      this.#report("");
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
    } finally {
      this.#syncing = false;
    }
  }

  /** After a reconnect: send everything that no history has shown. */
  #sendAll() {
    for (const { key, state } of this.conversation.outgoing) if (state !== "failed") this.send(key);
  }

  async #taken(key, status) {
    if (["started", "accepted", "in_flight"].includes(status)) {
      this.#become(chat.accepted(this.conversation, key));
      return;
    }
    await this.#sync(); // it ran before: the transcript has it
    this.#become(chat.drop(this.conversation, key));
  }

  #sendLater(key, error) {
    this.#mark(key, "waiting", error.message);
    setTimeout(() => this.#connection.online && this.send(key), error.retryAfterMs ?? BUSY_MS);
  }

  #mark(key, fate, problem = "") {
    this.#become(chat.mark(this.conversation, key, fate, problem));
  }

  #report(problem) {
    this.problem = problem;
    this.changed();
  }

  async #refreshModel() {
    try {
      this.#setModel(await this.#connection.request("models.status"));
    } catch (error) {
      if (!(error instanceof LostError)) this.#report(error.message);
    }
  }

  #setModel(status) {
    this.model = status;
    clearTimeout(this.#modelTimer);
    if (status.state === "starting") {
      this.#modelTimer = setTimeout(() => this.#refreshModel(), MODEL_POLL_MS);
    }
    this.changed();
  }
}
