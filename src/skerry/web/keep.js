// What the browser keeps: the token, messages not yet known to be in the transcript, drafts, and up
// to when each conversation was read.

const TOKEN = "skerry.token";
const DEVICE_TOKEN = "skerry.device";
const LET_IN = "skerry.let-in";
const UNSENT = "skerry.unsent.";
const DRAFT = "skerry.draft.";
const SEEN = "skerry.seen";
const DRAWER = "skerry.drawer";
const MAX_CONVERSATIONS = 500; // conversations

/** Run a storage access; a browser that forbids storage gives `otherwise`, and nothing is kept. */
function guarded(access, otherwise) {
  try {
    return access();
  } catch {
    return otherwise;
  }
}

/** Return the token kept before, or "". */
export function keptToken() {
  return guarded(() => localStorage.getItem(TOKEN), null) ?? "";
}

/**
 * Keep the token for other tabs and reloads of this origin. A browser that was let in by hand, from
 * another machine, has a key and a token of its own: there the gateway's is kept no longer.
 */
export function keepToken(token) {
  if (letIn.load() && deviceToken.load()) forgetToken();
  else guarded(() => localStorage.setItem(TOKEN, token.trim()));
}

/** Forget the token: the gateway refused it. */
export function forgetToken() {
  guarded(() => localStorage.removeItem(TOKEN));
}

/** A token of an address that the gateway has not accepted yet: for a reload of this tab meanwhile. */
export const triedToken = {
  load() {
    return guarded(() => sessionStorage.getItem(TOKEN), null) ?? "";
  },
  save(token) {
    guarded(() => sessionStorage.setItem(TOKEN, token));
  },
  forget() {
    guarded(() => sessionStorage.removeItem(TOKEN));
  },
};

/** Whether a person let this browser in by hand. */
export const letIn = {
  load() {
    return guarded(() => localStorage.getItem(LET_IN), null) !== null;
  },
  save() {
    guarded(() => localStorage.setItem(LET_IN, "1"));
  },
};

/** The token that the gateway gave this browser when it was paired; of no use without its key. */
export const deviceToken = {
  load() {
    return guarded(() => localStorage.getItem(DEVICE_TOKEN), null) ?? "";
  },
  save(token) {
    guarded(() => localStorage.setItem(DEVICE_TOKEN, token));
  },
};

/**
 * Messages that may not have reached the transcript, each under its own entry so that two tabs
 * never overwrite each other. A second tab may send one too: the key makes that harmless.
 */
export const unsent = {
  /** Return `{key, session, text, images, at}` for each, oldest first. */
  all() {
    const names = guarded(() => Object.keys(localStorage), []);
    return names
      .filter((name) => name.startsWith(UNSENT))
      .map((name) => guarded(() => JSON.parse(localStorage.getItem(name)), null))
      .filter((message) => message?.key && typeof message.text === "string")
      .map((message) => ({ session: "main", images: [], ...message }))
      .sort((one, other) => one.at - other.at);
  },
  put(message) {
    guarded(() => localStorage.setItem(UNSENT + message.key, JSON.stringify(message)));
  },
  drop(key) {
    guarded(() => localStorage.removeItem(UNSENT + key));
  },
};

/** The text being written in a conversation, kept for a reload of this tab. */
export const draft = {
  load(session) {
    return guarded(() => sessionStorage.getItem(DRAFT + session), null) ?? "";
  },
  save(session, text) {
    guarded(() => {
      if (text) sessionStorage.setItem(DRAFT + session, text);
      else sessionStorage.removeItem(DRAFT + session);
    });
  },
};

/** Up to when (in milliseconds) conversations were read; before the first visit all were. */
export const seen = {
  load() {
    const kept = guarded(() => JSON.parse(localStorage.getItem(SEEN)), null);
    return { since: kept?.since ?? Date.now(), at: kept?.at ?? {} };
  },
  mark(key, at) {
    const { since, at: known } = seen.load();
    const newest = Object.entries({ ...known, [key]: at }).sort((a, b) => b[1] - a[1]);
    const kept = Object.fromEntries(newest.slice(0, MAX_CONVERSATIONS));
    guarded(() => localStorage.setItem(SEEN, JSON.stringify({ since, at: kept })));
  },
};

/** Whether the list of conversations is open on a wide screen. */
export const drawerOpen = {
  load() {
    return guarded(() => localStorage.getItem(DRAWER), null) !== "closed";
  },
  save(open) {
    guarded(() => localStorage.setItem(DRAWER, open ? "open" : "closed"));
  },
};
