// What the tabs of the panel are made of.

import { make, setText } from "../dom.js";

/** Return the status line of a view; `tell(kind, ...sentences)` sets it. */
export function teller() {
  const line = make("p", { className: "result", role: "status" });
  const tell = (kind, ...sentences) => {
    line.dataset.kind = kind;
    setText(line, sentences.filter(Boolean).join(" "));
  };
  return { line, tell };
}

/** Return what went wrong as a person should read it. */
export function wrong({ message, details }) {
  return [message || "The gateway does not answer.", details?.remedy];
}

/** Return a button that does something. */
export function button(text, act, className = "quiet") {
  const made = make("button", { type: "button", className }, text);
  made.addEventListener("click", act);
  return made;
}
