// Requests to the relayer that has served this page.

const PAGE = 500;
const READ = 100;

/** A request that the relayer refused; the message is for people. */
export class RefusedError extends Error {
  constructor(status, text) {
    super(REASONS[status] ?? (text || `The relayer answered with status ${status}.`));
    this.status = status;
  }
}

const REASONS = {
  401: "The relayer refuses this key. Is the account right, and the key still admitted?",
  429: "Too many requests. Wait a minute, then try again.",
  503: "A part of the relayer does not answer. Try again in a moment.",
};

/** The memory of one owner, seen with one key. */
export class Api {
  constructor(signer) {
    this.signer = signer;
  }

  async send(method, path, fields) {
    const body = fields === undefined ? "" : JSON.stringify(fields);
    const headers = await this.signer.headers(method, path, body);
    const answer = await fetch(path, { method, headers, body: method === "GET" ? undefined : body });
    const text = await answer.text();
    const parsed = text.startsWith("{") ? JSON.parse(text) : {};
    if (!answer.ok) throw new RefusedError(answer.status, parsed.error ?? text);
    return parsed;
  }

  post(path, fields) {
    return this.send("POST", path, fields);
  }

  async owner() {
    return (await this.send("GET", "/v1/me")).owner;
  }

  /** Returns all rows of a list that comes in pages. */
  async all(owner, what) {
    const rows = [];
    for (let cursor = ""; ; ) {
      const path = `/v1/owners/${owner}/${what}?limit=${PAGE}${cursor}`;
      const page = await this.send("GET", path);
      rows.push(...page[what]);
      if (!page.has_more) return rows;
      cursor = `&updated_after=${encodeURIComponent(page.next_cursor)}`;
    }
  }

  /** Returns texts by memory id. */
  async texts(ids) {
    const texts = new Map();
    for (let begin = 0; begin < ids.length; begin += READ) {
      const { memories } = await this.post("/api/memories/read", { ids: ids.slice(begin, begin + READ) });
      for (const memory of memories) texts.set(memory.id, memory.text);
    }
    return texts;
  }
}
