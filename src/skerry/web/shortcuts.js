// Keys that work everywhere on the page, and the sheet that names them.

import { byId, make } from "./dom.js";

const KEYS = [
  ["Enter", "Send the message"],
  ["Shift+Enter", "Begin a new line"],
  ["/", "Commands, at the beginning of a message"],
  ["Esc", "Stop the answer"],
  ["Alt+N", "New conversation"],
  ["Alt+↑ / Alt+↓", "The conversation above or below"],
  ["Ctrl+K", "Search conversations"],
  ["Alt+M", "Memory of the agents"],
  ["↑ ↓", "In the list: move"],
  ["F2 / Delete", "In the list: rename or delete"],
  ["Ctrl+/ or ?", "Show these shortcuts"],
];

/**
 * Bind the keys. `actions` has begin(), search(), move(step), memory() and stop(), which say whether
 * they did.
 */
export function bindShortcuts(actions) {
  byId("sheet-keys").append(
    ...KEYS.map(([keys, what]) =>
      make("div", {}, make("dt", {}, make("kbd", {}, keys)), make("dd", {}, what)),
    ),
  );
  byId("help").addEventListener("click", () => byId("sheet").showModal());
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const act = ACTIONS[nameOf(event)];
    if (act?.(actions, event) !== false && act) event.preventDefault();
  });
}

const ACTIONS = {
  "Alt+KeyN": ({ begin }) => begin(),
  "Alt+ArrowUp": ({ move }) => move(-1),
  "Alt+ArrowDown": ({ move }) => move(1),
  "Alt+KeyM": ({ memory }) => memory(),
  "Ctrl+KeyK": ({ search }) => search(),
  "Ctrl+Slash": () => byId("sheet").showModal(),
  Escape: ({ stop }) => stop(),
  "?": (_, { target }) => (isWriting(target) ? false : byId("sheet").showModal()),
};

/** Return the name of a key press: what it types without modifiers, its place on the keyboard with. */
function nameOf({ ctrlKey, metaKey, altKey, key, code }) {
  if (altKey) return `Alt+${code}`;
  return ctrlKey || metaKey ? `Ctrl+${code}` : key;
}

function isWriting({ localName }) {
  return ["input", "textarea", "select"].includes(localName);
}
