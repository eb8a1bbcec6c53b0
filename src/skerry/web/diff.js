// A unified diff as lines, added and removed ones marked by sign and colour.

import { make } from "./dom.js";
import { exact } from "./visible.js";

const MOST = 400; // lines that are shown

/** Return the box of a diff. */
export function diffBox(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const box = make("pre", { className: "diff", tabIndex: 0, dir: "ltr", ariaLabel: "Change" });
  for (const words of lines.slice(0, MOST)) {
    box.append(make("span", { className: kindOf(words) }, ...exact(words)), "\n");
  }
  if (lines.length > MOST) box.append(`${lines.length - MOST} more lines`);
  return box;
}

function kindOf(words) {
  if (/^(\+\+\+|---|diff |\*\*\*)/.test(words)) return "file";
  if (words.startsWith("@@")) return "place";
  return { "+": "added", "-": "removed" }[words[0]] ?? "same";
}
