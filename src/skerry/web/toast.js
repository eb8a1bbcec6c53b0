// A short message at the edge, with at most one thing that can be done about it.

import { byId, setText } from "./dom.js";

const SHOWN_MS = 10_000;

let timer = 0;

/** Show the text for ten seconds, longer while it is pointed at; `act` is what its button does. */
export function toast(text, label = "", act = null) {
  const box = byId("toast");
  const button = byId("toast-button");
  box.hidden = false;
  setText(byId("toast-text"), text);
  button.hidden = !act;
  setText(button, label || "");
  const hide = () => (box.hidden = true);
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(hide, SHOWN_MS);
  };
  button.onclick = () => {
    hide();
    act?.();
  };
  box.onpointerenter = box.onfocusin = () => clearTimeout(timer);
  box.onpointerleave = box.onfocusout = later;
  later();
}
