// What the browser keeps: the token, messages not yet known to be in the transcript, the draft.

const TOKEN = "skerry.token";
const UNSENT = "skerry.unsent.";
const DRAFT = "skerry.draft";

/** Run a storage access; a browser that forbids storage gives `otherwise`, and nothing is kept. */
function guarded(access, otherwise) {
  try {
    return access();
  } catch {
    return otherwise;
  }
}

/**
 * Take the token out of the address (`#token=...`), so that it is in no history, bookmark or
 * screenshot, and return it; without one there, return the token kept before, or "".
 */
export function claimToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("token");
  if (given === null) return guarded(() => localStorage.getItem(TOKEN), null) ?? "";
  history.replaceState(null, "", location.pathname + location.search);
  return keepToken(given);
}

/** Keep the token for other tabs and reloads of this origin; return it. */
export function keepToken(token) {
  const clean = token.trim();
  guarded(() => localStorage.setItem(TOKEN, clean));
  return clean;
}

/** Forget the token: the gateway refused it. */
export function forgetToken() {
  guarded(() => localStorage.removeItem(TOKEN));
}

/**
 * Messages that may not have reached the transcript, each under its own entry so that two tabs
 * never overwrite each other. A second tab may send one too: the key makes that harmless.
 */
export const unsent = {
  /** Return `{key, text, at}` for each, oldest first. */
  all() {
    const names = guarded(() => Object.keys(localStorage), []);
    return names
      .filter((name) => name.startsWith(UNSENT))
      .map((name) => guarded(() => JSON.parse(localStorage.getItem(name)), null))
      .filter((message) => message?.key && typeof message.text === "string")
      .sort((one, other) => one.at - other.at);
  },
  put({ key, text, at }) {
    guarded(() => localStorage.setItem(UNSENT + key, JSON.stringify({ key, text, at })));
  },
  drop(key) {
    guarded(() => localStorage.removeItem(UNSENT + key));
  },
};

/** The text being written, kept for a reload of this tab. */
export const draft = {
  load() {
    return guarded(() => sessionStorage.getItem(DRAFT), null) ?? "";
  },
  save(text) {
    guarded(() => sessionStorage.setItem(DRAFT, text));
  },
};
