// The state of the gateway for the page: connection, model, conversations. No DOM.

import { Approvals } from "./approvals.js";
import { freshId } from "./ids.js";
import { seen, unsent } from "./keep.js";
import { Markdown } from "./markdown.js";
import { Session } from "./session.js";
import { ADMIN, Connection, LostError, RefusedError, SCOPES } from "./socket.js";

const MODEL_POLL_MS = 2000; // while the model starts
const HEALTH_POLL_MS = 5000; // while the gateway cannot store
const LIST_DELAY_MS = 300; // many changes make one look at the list
const LIST_PAGE = 100;
const MAX_OPEN = 8; // conversations that are kept in step though another one is shown
const IDLE_MS = 15 * 60_000; // after which administrator rights end
const BEYOND = [ADMIN, "operator.pairing"]; // scopes that administrators have and pages have not
const OWNERS = ["memory.save"]; // a writer's save is not the owner's word, so these ask first
const LOOK_MS = 30_000;
const ENDS = ["final", "aborted", "error"];

/**
 * What a page shows. `changed()` is called after every change of
 *   phase     {phase: connecting | online | offline | refused, since, retryAt}
 *   stopping  whether the gateway announced its stop
 *   hello     the payload of hello-ok, or null
 *   health    its last report on its health, or null
 *   model     the result of `models.status`, or null
 *   session   the conversation that is shown
 *   list      {rows, more, search}: the conversations, the latest used first
 *   running   keys of the conversations in which a run works
 *   commands  what `commands.list` names
 * `refused(error)` when the gateway does not let this page in, and `allow(method)`, which asks a
 * person for administrator rights in this tab and returns whether they are given.
 */
export class Gateway {
  phase = { phase: "connecting", since: null, retryAt: null };
  stopping = false;
  hello = null;
  health = null;
  model = null;
  session = null;
  list = { rows: [], more: false, search: "" };
  commands = [];
  panels = []; // of plugins
  names = new Map(); // of the agents that have one, by id
  approvals = new Approvals(this);
  #connection;
  #listeners = new Set(); // of panels: [event, callback]
  #sessions = new Map();
  #runs = new Map(); // run id: session key
  #seen = seen.load();
  #limit = LIST_PAGE;
  #apart = null; // the row of the conversation that is shown, where the list has none
  #listTimer = 0;
  #modelTimer = 0;
  #healthTimer = 0;
  #adminTimer = 0; // runs while this tab has administrator rights
  #allowing = null; // the question for them, while it is open
  #used = 0; // when a person last did something here

  constructor(url, token, { changed, refused, allow }, isTried = false) {
    this.changed = changed;
    this.allow = allow;
    this.markdown = new Markdown((texts) => this.#render(texts), changed);
    this.#connection = new Connection(url, token, freshId(), {
      state: (state) => this.#connected(state),
      event: (name, payload) => this.#event(name, payload),
      gap: () => this.#catchUp(),
      refused: (error) => {
        this.phase = { phase: "refused", since: null, retryAt: null };
        refused(error);
      },
    });
    this.#connection.isTried = isTried;
    for (const { session } of unsent.all()) this.#sessionOf(session);
  }

  /** Whether requests reach the gateway now. */
  get online() {
    return this.#connection.online;
  }

  /** Keys of the conversations in which a run works. */
  get running() {
    return new Set(this.#runs.values());
  }

  /** Whether the gateway has this method. An older one has not, and the page hides what needs it. */
  can(method) {
    return this.hello?.features?.methods?.includes(method) ?? false;
  }

  /**
   * Send a request of a person; raises `RefusedError` or `LostError`. One that needs administrator
   * rights is repeated with them when the person allows that.
   */
  async request(method, params) {
    this.#used = Date.now();
    try {
      if (OWNERS.includes(method)) await this.#administer(method);
      return await this.#connection.request(method, params);
    } catch (error) {
      if (!BEYOND.includes(error.details?.missingScope) || this.#adminTimer) throw error;
      await this.#administer(method);
      return await this.#connection.request(method, params);
    }
  }

  /** Have administrator rights in this tab: ask for them once, whoever needs them meanwhile. */
  async #administer(method) {
    if (this.#adminTimer) return;
    this.#allowing ??= this.#claim(method).finally(() => (this.#allowing = null));
    await this.#allowing;
  }

  /** Ask for administrator rights in this tab and connect with them. */
  async #claim(method) {
    if (!(await this.allow(method))) {
      throw new RefusedError({ message: "Administrator rights were not granted. Nothing was changed." });
    }
    try {
      await this.#connection.claim([...SCOPES, ADMIN]);
    } catch (error) {
      const { requestId } = error.details ?? {};
      if (!requestId) throw error;
      const command = `skerry devices approve ${requestId}`;
      const message = `This browser needs approval. On the gateway's machine, run: ${command}. Then try again.`;
      throw new RefusedError({ message, details: error.details });
    }
    this.#used = Date.now();
    this.#adminTimer = setInterval(() => this.#endAdmin(), LOOK_MS);
  }

  /** Give administrator rights back when nobody did anything here for a while. */
  #endAdmin() {
    if (Date.now() - this.#used < IDLE_MS || this.#connection.busy) return;
    clearInterval(this.#adminTimer);
    this.#adminTimer = 0;
    this.#connection.claim(SCOPES).catch(() => {});
  }

  /** Connect now, also while a later try is planned. */
  open() {
    this.#connection.open();
  }

  /** Replace a connection that died unnoticed, as when the machine slept. */
  check() {
    this.#connection.check();
  }

  /** End the connection; the object is of no more use. */
  close() {
    clearTimeout(this.#modelTimer);
    clearTimeout(this.#healthTimer);
    clearTimeout(this.#listTimer);
    clearInterval(this.#adminTimer);
    this.#connection.close();
  }

  /** Show this conversation; it begins with its first message. */
  show(key) {
    this.session = this.#sessionOf(key);
    this.#sessions.delete(key);
    this.#sessions.set(key, this.session); // the latest shown is last
    if (this.online) this.session.sync();
    if (this.online && !this.row) this.refreshList();
    this.changed();
  }

  /** The row of the conversation that is shown; undefined while it has no message. */
  get row() {
    return [...this.list.rows, this.#apart].find((one) => one && this.isShown(one));
  }

  /** Return a new conversation's key. */
  newKey() {
    const agent = this.hello?.snapshot?.sessionDefaults?.defaultAgentId ?? "main";
    return `agent:${agent}:chat-${freshId().slice(0, 10)}`;
  }

  /** Return the canonical key of a conversation, by which events name it. */
  fullKey(key) {
    return (key === "main" && this.hello?.snapshot?.sessionDefaults?.mainSessionKey) || key;
  }

  /** Whether a row of the list is the conversation that is shown. */
  isShown(row) {
    const { key, conversation } = this.session;
    return row.key === (conversation.key || key) || (key === "main" && row.isMain === true);
  }

  /** Whether a conversation has something that was not looked at. */
  isUnread(row) {
    return !this.isShown(row) && row.updatedAt > (this.#seen.at[row.key] ?? this.#seen.since);
  }

  /** Remember that the conversation that is shown has been looked at. */
  look() {
    const { row } = this;
    if (!row || document.hidden || row.updatedAt <= (this.#seen.at[row.key] ?? 0)) return;
    seen.mark(row.key, row.updatedAt);
    this.#seen = seen.load();
  }

  /** Show only conversations in which these words are; with none, all. */
  search(words) {
    this.list = { ...this.list, search: words };
    this.#limit = LIST_PAGE;
    this.refreshList();
  }

  /** Show more of the list. */
  showMore() {
    this.#limit = Math.min(1000, this.#limit * 3);
    this.refreshList();
  }

  /** Read the list of conversations soon. */
  refreshList() {
    this.#listTimer ||= setTimeout(() => this.#readList(), LIST_DELAY_MS);
  }

  /** Request the health again: can the gateway store messages? */
  async probe() {
    this.#setHealth((await this.#try("health", { probe: true })) ?? this.health);
  }

  /** Enter another model; returns the new status. Raises what the gateway answers. */
  async configure(values) {
    const status = await this.request("models.configure", values);
    this.#setModel(status);
    return status;
  }

  /** Use a local model server that was found; returns the new status. Raises what the gateway answers. */
  async trust(server) {
    const status = await this.request("models.trust", { server });
    this.#setModel(status);
    return status;
  }

  /** Return the models that a conversation can have; none where the gateway does not say. */
  async models() {
    return (await this.#try("models.list", {}))?.models ?? [];
  }

  #sessionOf(key) {
    const known = this.#sessions.get(key);
    if (known) return known;
    const session = new Session(key, this);
    this.#sessions.set(key, session);
    for (const [other, { conversation }] of this.#sessions) {
      if (this.#sessions.size <= MAX_OPEN) break;
      if (other !== key && conversation.outgoing.length === 0) this.#sessions.delete(other);
    }
    return session;
  }

  #connected({ phase, since, retryAt, hello }) {
    this.phase = { phase, since, retryAt };
    if (phase === "online") {
      this.stopping = false;
      this.hello = hello;
      this.#setHealth(hello.snapshot?.health ?? null);
      this.#runs.clear();
      this.#catchUp();
      this.#refreshModel();
      this.#readAgents();
      this.#subscribe();
      void this.approvals.read();
    }
    this.changed();
  }

  #catchUp() {
    for (const session of this.#sessions.values()) {
      if (session === this.session || session.conversation.outgoing.length > 0) session.catchUp();
    }
    this.refreshList();
  }

  async #subscribe() {
    if (this.can("sessions.subscribe")) await this.#try("sessions.subscribe");
    await this.#readPanels();
    if (!this.can("commands.list")) return;
    this.commands = (await this.#try("commands.list"))?.commands ?? [];
    this.changed();
  }

  /** Call back at each event of this name; return a function that ends it. */
  on(event, callback) {
    const listener = [event, callback];
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Know which panels plugins add; a change of the configuration may change them. */
  async #readPanels() {
    if (!this.can("plugins.panels")) return;
    this.panels = (await this.#try("plugins.panels"))?.panels ?? [];
    this.changed();
  }

  /** Know what the agents call themselves, in the configuration or their IDENTITY.md. */
  async #readAgents() {
    const found = this.can("agents.list") ? await this.#try("agents.list") : null;
    for (const { id, name, identity } of found?.agents ?? []) {
      this.names.set(id, [identity?.emoji, identity?.name ?? name].filter(Boolean).join(" "));
    }
    this.changed();
  }

  #event(name, payload) {
    if (name === "shutdown") this.stopping = true;
    if (name === "shutdown") this.changed();
    if (name === "health") this.#setHealth(payload);
    if (name === "config.changed") this.#readPanels();
    if (name.startsWith("exec.approval.")) this.approvals.event(name, payload);
    for (const [event, callback] of this.#listeners) if (event === name) callback(payload);
    if (name.startsWith("sessions.") || name === "session.message") this.refreshList();
    if (name !== "chat" && name !== "agent") return;
    this.#follow(name, payload);
    for (const session of this.#sessions.values()) session.event(name, payload);
    const mayHaveChanged = payload.state === "error" || this.model?.failure;
    if (name === "chat" && ENDS.includes(payload.state) && mayHaveChanged) this.#refreshModel();
  }

  /** Know where runs work, for the marks in the list. */
  #follow(name, { runId, sessionKey, state, stream, data }) {
    const ends = name === "chat" && ENDS.includes(state);
    const begins = stream === "lifecycle" && data?.phase === "start";
    if (begins) this.#runs.set(runId, sessionKey);
    if (ends) this.#runs.delete(runId);
    if (begins || ends) this.refreshList();
  }

  async #readList() {
    this.#listTimer = 0;
    const params = {
      limit: this.#limit,
      search: this.list.search.trim(),
      includeDerivedTitles: true,
    };
    const found = await this.#try("sessions.list", params);
    if (!found || params.search !== this.list.search.trim()) return;
    const rows = found.sessions ?? [];
    const key = this.fullKey(this.session.key);
    const about = { key, includeDerivedTitles: true };
    this.#apart = rows.some((one) => this.isShown(one))
      ? null
      : (await this.#try("sessions.describe", about))?.session;
    this.list = { ...this.list, rows, more: found.hasMore === true };
    this.changed();
  }

  async #render(texts) {
    if (!this.can("markdown.render")) return null;
    return (await this.#try("markdown.render", { texts }))?.html ?? null;
  }

  async #refreshModel() {
    const status = await this.#try("models.status");
    if (status) this.#setModel(status);
  }

  #setHealth(report) {
    this.health = report;
    clearTimeout(this.#healthTimer);
    const isWell = (report?.storage?.state ?? "ok") === "ok";
    if (!isWell) this.#healthTimer = setTimeout(() => this.probe(), HEALTH_POLL_MS);
    this.changed();
  }

  #setModel(status) {
    this.model = status;
    clearTimeout(this.#modelTimer);
    if (status.state === "starting") {
      this.#modelTimer = setTimeout(() => this.#refreshModel(), MODEL_POLL_MS);
    }
    this.changed();
  }

  /** Send a request that no person made; returns null where it fails. */
  quietly(method, params) {
    return this.#try(method, params);
  }

  /** Send a request whose failure the page can do without; it is shown, and null returned. */
  async #try(method, params) {
    try {
      return await this.#connection.request(method, params);
    } catch (error) {
      if (!(error instanceof LostError)) console.info(`${method}: ${error.message}`);
      return null;
    }
  }
}
