// The connection to the gateway: handshake, requests, gap detection, reconnecting.

import { identity, proof } from "./device.js";
import { deviceToken } from "./keep.js";

const PROTOCOL = 4;
const ROLE = "operator";
/** What the page claims, and what it claims besides when a person allows it. */
export const SCOPES = ["operator.read", "operator.write", "operator.approvals"];
const EARLIER = ["operator.read", "operator.write"]; // a browser that was paired before has these
export const ADMIN = "operator.admin";
const HANDSHAKE_MS = 10_000;
const FIRST_DELAY_MS = 400;
const LONGEST_DELAY_MS = 15_000;
const GIVEN_UP = 4000; // our close code for a connection that is silent or of no more use

/** The gateway answered with an error; `code`, `details`, `retryable` are the wire's. */
export class RefusedError extends Error {
  constructor({ code, message, details, retryable, retryAfterMs }) {
    super(message);
    this.code = code;
    this.details = details ?? {};
    this.retryable = retryable === true;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The connection was lost before the response: the request may or may not have been accepted. */
export class LostError extends Error {
  constructor() {
    super("The connection to the gateway was lost.");
  }
}

/**
 * One lasting connection. `listener` has four functions: `state({phase, since, retryAt, hello})`
 * with phase connecting, online or offline and, in milliseconds, when the connection was lost and
 * when the next try is; `event(name, payload)`; `gap()` when events were missed; `refused(error)`
 * when the gateway does not let this page in, after which nothing more is tried.
 */
export class Connection {
  #socket = null;
  #pending = new Map();
  #nextId = 1;
  #seq = 0;
  #receivedAt = 0;
  #failures = 0;
  #lostAt = null;
  #retryAt = null;
  #retryTimer = 0;
  #watchTimer = 0;
  #tickMs = 30_000;
  #usual = SCOPES;
  #scopes = SCOPES;
  #claim = null; // {resolve, reject} of a connection with other scopes that is being made

  constructor(url, token, instanceId, listener) {
    this.url = url;
    this.token = token;
    this.isTried = false; // then the token is all that is shown, so that it is judged by itself
    this.instanceId = instanceId;
    this.listener = listener;
    this.online = false;
  }

  /** Connect now, whatever is waited for; does nothing while connecting or connected. */
  open() {
    if (this.#socket) return;
    clearTimeout(this.#retryTimer);
    this.#retryAt = null;
    this.#report(this.#lostAt ? "offline" : "connecting");
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    this.#seq = 0;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = () => this.#lose();
    this.#watch(HANDSHAKE_MS);
  }

  /** Connect anew with these scopes; raises `LostError`, or `RefusedError` and keeps the usual ones. */
  claim(scopes) {
    this.#settle("reject", new LostError());
    this.#scopes = scopes === SCOPES ? this.#usual : scopes;
    this.#detach();
    return new Promise((resolve, reject) => {
      this.#claim = { resolve, reject };
      this.open();
    });
  }

  /** Whether an answer is waited for. */
  get busy() {
    return this.#pending.size > 0;
  }

  /** Close for good. */
  close() {
    this.#settle("reject", new LostError());
    this.#detach();
    clearTimeout(this.#retryTimer);
  }

  /** Called when the machine wakes or the tab is looked at: a dead connection is replaced at once. */
  check() {
    if (this.online && Date.now() - this.#receivedAt > 2 * this.#tickMs) this.#lose();
    this.open();
  }

  /** Send a request; return its payload. Raises `RefusedError` or `LostError`. */
  request(method, params = {}) {
    return new Promise((resolve, reject) => {
      const ready = this.#socket?.readyState === WebSocket.OPEN; // it may close before the event
      if (!ready || (!this.online && method !== "connect")) {
        reject(new LostError());
        return;
      }
      const id = `r${this.#nextId++}`;
      this.#pending.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  #receive(frame) {
    this.#receivedAt = Date.now();
    if (frame.type === "res") this.#answer(frame);
    else if (frame.event === "connect.challenge") this.#introduce(frame.payload.nonce);
    else if (frame.type === "event") this.#event(frame);
  }

  #answer({ id, ok, payload, error }) {
    const waiting = this.#pending.get(id);
    this.#pending.delete(id);
    if (ok) waiting?.resolve(payload);
    else waiting?.reject(new RefusedError(error));
  }

  #event({ event, payload, seq }) {
    const missed = seq !== undefined && seq !== this.#seq + 1;
    if (seq !== undefined) this.#seq = seq;
    if (missed) this.listener.gap();
    this.listener.event(event, payload ?? {});
  }

  async #introduce(nonce) {
    const socket = this.#socket;
    try {
      const about = await this.#about(nonce);
      if (socket !== this.#socket) return;
      const hello = await this.request("connect", about);
      if (hello.auth?.deviceToken) deviceToken.save(hello.auth.deviceToken);
      this.#tickMs = hello.policy?.tickIntervalMs ?? this.#tickMs;
      this.online = true;
      this.#failures = 0;
      this.#lostAt = null;
      this.#watch(2 * this.#tickMs);
      this.#report("online", hello);
      this.#settle("resolve");
    } catch (error) {
      if (error instanceof LostError || socket !== this.#socket) return;
      if (this.#claim && this.#scopes !== this.#usual) {
        this.#scopes = this.#usual;
        this.#settle("reject", error);
        return; // the gateway closes next, and we come again as before
      }
      if (error.details.reason === "scope-upgrade" && this.#usual === SCOPES) {
        this.#usual = this.#scopes = EARLIER; // the page works; approvals wait for the owner's word
        return;
      }
      if (error.retryable) return; // the gateway closes next, and we come again
      if (error.details.code === "AUTH_DEVICE_TOKEN_MISMATCH") deviceToken.save("");
      this.close();
      this.listener.refused(error);
    }
  }

  /** Return what the page says of itself: which browser it is, and what lets it in. */
  async #about(nonce) {
    const client = {
      id: "webchat-ui",
      version: "1",
      platform: "web",
      mode: "webchat",
      displayName: `Page in ${browserName()}`,
      instanceId: this.instanceId,
    };
    const device = await identity();
    const own = device && !this.isTried ? deviceToken.load() : "";
    const auth = { ...(this.token && { token: this.token }), ...(own && { deviceToken: own }) };
    const said = { client, role: ROLE, scopes: this.#scopes, token: this.token || own };
    return {
      minProtocol: PROTOCOL,
      maxProtocol: PROTOCOL,
      client,
      role: ROLE,
      scopes: this.#scopes,
      caps: ["tool-events"],
      auth,
      ...(device && { device: await proof(device, nonce, said) }),
      userAgent: navigator.userAgent,
      locale: navigator.language,
    };
  }

  /** Close the connection when nothing arrived for `patience` ms; a live gateway sends ticks. */
  #watch(patience) {
    clearTimeout(this.#watchTimer);
    this.#receivedAt = Date.now();
    const look = () => {
      const left = this.#receivedAt + patience - Date.now();
      if (left <= 0) this.#lose();
      else this.#watchTimer = setTimeout(look, left);
    };
    this.#watchTimer = setTimeout(look, patience);
  }

  #detach() {
    const socket = this.#socket;
    this.#socket = null;
    this.online = false;
    clearTimeout(this.#watchTimer);
    if (socket) {
      socket.onmessage = socket.onclose = null;
      socket.close(GIVEN_UP);
    }
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of pending) reject(new LostError());
  }

  #lose() {
    this.#detach();
    this.#lostAt ??= Date.now();
    const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures++);
    const delay = longest * (0.5 + Math.random() / 2); // spread, so that tabs do not come as one
    this.#retryAt = Date.now() + delay;
    this.#retryTimer = setTimeout(() => this.open(), delay);
    this.#report("offline");
  }

  #settle(how, error = undefined) {
    this.#claim?.[how](error);
    this.#claim = null;
  }

  #report(phase, hello = null) {
    this.listener.state({ phase, since: this.#lostAt, retryAt: this.#retryAt, hello });
  }
}

/** Return what a person calls this browser, to know it again in the list of devices. */
function browserName() {
  const [name = "a browser"] = /Firefox|Edg|Chrome|Safari/.exec(navigator.userAgent) ?? [];
  return `${name.replace("Edg", "Edge")}, ${navigator.platform}`;
}
