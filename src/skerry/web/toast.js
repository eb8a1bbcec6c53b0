// A short message at the top, with at most one thing that can be done about it. The conversation
// makes room for it, so that it lies over no message.

import { byId, setText } from "./dom.js";

const SHOWN_MS = 10_000;
const AIR = 16; // px above and below it

let timer = 0;

/** Show the text for ten seconds, longer while it is pointed at; `act` is what its button does. */
export function toast(text, label = "", act = null) {
  const box = byId("toast");
  const button = byId("toast-button");
  box.hidden = false;
  setText(byId("toast-text"), text);
  button.hidden = !act;
  setText(button, label || "");
  const room = (height) => document.documentElement.style.setProperty("--toast", `${height}px`);
  const hide = () => {
    box.hidden = true;
    room(0);
  };
  room(box.offsetHeight + AIR);
  const { left, width } = byId("room").getBoundingClientRect();
  box.style.left = `${left + width / 2}px`; // over the conversation, beside the list
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
