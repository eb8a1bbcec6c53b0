// The address: `#session=KEY` names a conversation, `#token=T` brings the token.

export const MAIN = "main";

/** Return `{token, session}` of the address; token is null when it has none. */
export function here() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  return { token: fragment.get("token"), session: fragment.get("session") || MAIN };
}

/** Take the token out of the address, so that it is in no history, bookmark or screenshot. */
export function hideToken() {
  const { token, session } = here();
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search + hashOf(session));
}

/** Return the fragment of a conversation; the main one has none. */
function hashOf(session) {
  if (session === MAIN) return "";
  return `#session=${encodeURIComponent(session).replaceAll("%3A", ":")}`;
}

/** Return the address of a conversation, for a link. */
export function linkTo(session) {
  return location.pathname + location.search + hashOf(session);
}

/** Go to a conversation as a link would; the main one has no fragment, so no `hashchange`. */
export function go(session) {
  history.pushState(null, "", linkTo(session));
  window.dispatchEvent(new Event("popstate"));
}
