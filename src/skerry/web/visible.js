// Text that a person decides on: each character that cannot be seen, or that moves others, is written out.

const SEEN = "\n\t";
// Controls, format characters (bidi marks, zero-width ones), separators, fillers, odd spaces, variation selectors.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u00a0\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
// Output may have emoji, which join and vary characters; what hides or moves text is still written out.
const MISLEADING = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const COLOURS = /\x1b\[[0-9;:]*m/g;
const OVERWRITTEN = /[^\n]*\r(?=[^\r\n])/g; // what a progress bar has painted over

/** Return the nodes of a command or another text that a person decides on. */
export function exact(text) {
  return nodes(text, HIDDEN);
}

/** Return the nodes of a command's output: without colours, and progress bars as they ended. */
export function output(text) {
  return nodes(text.replaceAll("\r\n", "\n").replace(COLOURS, "").replace(OVERWRITTEN, ""), MISLEADING);
}

/** Return a text as one line of plain characters, for labels and what a screen reader reads. */
export function line(text) {
  return text.replaceAll(/[\n\t]+/g, " ").replace(HIDDEN, (character) => `<${code(character)}>`);
}

function nodes(text, hidden) {
  const parts = [];
  let end = 0;
  for (const { 0: character, index } of text.matchAll(hidden)) {
    if (SEEN.includes(character)) continue;
    if (index > end) parts.push(text.slice(end, index));
    parts.push(mark(character));
    end = index + character.length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

function mark(character) {
  const element = document.createElement("span");
  element.className = "unseen";
  element.title = "A character that cannot be seen";
  element.textContent = `<${code(character)}>`;
  return element;
}

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
