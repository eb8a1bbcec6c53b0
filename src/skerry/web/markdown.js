// Markdown in the document. The gateway renders and sanitises it; this is the only place where HTML
// enters the page, and the content security policy would stop what should not be in it.

import { make, setText } from "./dom.js";

const BATCH = 48; // texts of a request
const BATCH_CHARS = 200_000;
const KEPT_CHARS = 4_000_000;

const policy = globalThis.trustedTypes?.createPolicy("skerry-markdown", {
  createHTML: (html) => html,
}) ?? { createHTML: (html) => html }; // Browsers without trusted types take the text.

/**
 * Markdown as HTML, asked for in batches and kept. `changed()` is called when there is more;
 * `isPlain` while the gateway does not render.
 */
export class Markdown {
  isPlain = false;
  #kept = new Map();
  #chars = 0;
  #wanted = new Map();
  #asking = false;

  /** `ask(texts)` returns the HTML of each; null when the gateway does not render. */
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed;
  }

  /** Return the HTML of a text, or undefined while it is not known. */
  html(text) {
    return text === "" ? "" : this.#kept.get(text);
  }

  /** Forget the HTML of a text that has grown since. */
  forget(text) {
    this.#chars -= text.length + (this.#kept.get(text)?.length ?? -text.length);
    this.#kept.delete(text);
  }

  /** Ask for the HTML of a text soon. Of one `id` only the newest text is asked for. */
  want(id, text) {
    if (!text || this.#kept.has(text)) return;
    this.#wanted.set(id, text);
    this.#askSoon();
  }

  /** Wait until all these texts are known, as far as they can be. */
  async prepare(texts) {
    const missing = texts.filter((text) => text && !this.#kept.has(text));
    for (let rest = missing; rest.length > 0; ) {
      const batch = firstOf(rest);
      rest = rest.slice(batch.length);
      if (!(await this.#fetch(batch))) return;
    }
  }

  async #askSoon() {
    if (this.#asking) return;
    this.#asking = true;
    await null; // what is wanted in this turn goes together
    while (this.#wanted.size > 0) {
      const batch = firstOf([...this.#wanted.values()]);
      const isThere = await this.#fetch(batch);
      for (const [id, text] of this.#wanted) if (batch.includes(text)) this.#wanted.delete(id);
      this.changed();
      if (!isThere) break;
    }
    this.#wanted.clear();
    this.#asking = false;
  }

  async #fetch(texts) {
    const html = await this.ask(texts);
    html?.forEach((one, place) => this.#keep(texts[place], one));
    this.isPlain = html === null;
    return !this.isPlain;
  }

  #keep(text, html) {
    this.#kept.set(text, html);
    this.#chars += text.length + html.length;
    for (const [oldest, itsHtml] of this.#kept) {
      if (this.#chars <= KEPT_CHARS || oldest === text) break;
      this.#kept.delete(oldest);
      this.#chars -= oldest.length + itsHtml.length;
    }
  }
}

/** Return as many of the texts as one request may have; one at least. */
function firstOf(texts) {
  let chars = 0;
  const fitting = texts.findIndex((text, place) => {
    chars += text.length;
    return place > 0 && (chars > BATCH_CHARS || place >= BATCH);
  });
  return fitting < 0 ? texts : texts.slice(0, fitting);
}

/**
 * Return how much of a growing text is finished: up to the last empty line that is not inside a
 * fence or a list, which may go on after it.
 */
function finished(text) {
  let fence = "";
  let end = 0;
  let place = 0;
  let isAfterGap = false;
  for (const line of text.split("\n")) {
    if (!fence && isAfterGap && /^(?![-*+] |\d+[.)] )\S/.test(line)) end = place;
    const [, mark = ""] = /^ {0,3}(`{3,}|~{3,})/.exec(line) ?? [];
    if (!fence) fence = mark;
    else if (mark.startsWith(fence)) fence = "";
    isAfterGap = line.trim() === "";
    place += line.length + 1;
  }
  return end;
}

/**
 * An answer's text. While it grows, finished blocks are kept, and the rest is rendered again as soon
 * as its last rendering is here: it has its form before it ends, and nothing jumps then.
 */
export class Prose {
  #source = "";
  #isWhole = true; // rendered as one text
  #asked = [""]; // the parts of the text that were asked for last
  #blocks = []; // of the rendered part: {html, node}

  constructor() {
    this.body = make("div", { className: "md" });
    this.tail = make("span", { className: "tail", dir: "auto" });
    this.root = make("div", { className: "text" }, this.body, this.tail);
  }

  /** Whether all of this text is shown as one, and there is nothing left to do. */
  isWhole(text) {
    return this.#isWhole && text === this.#source;
  }

  /** Show the text; `markdown` renders it, a `growing` one in two parts. */
  show(id, text, markdown, growing) {
    if (this.isWhole(text) || (growing && text === this.#source)) return;
    const end = growing ? finished(text) : text.length;
    const wanted = growing ? [text.slice(0, end), text.slice(end)] : [text];
    const isGrown = text.startsWith(this.#asked.join(""));
    for (const parts of isGrown ? [this.#asked, wanted] : [wanted]) {
      const html = parts.map((part) => markdown.html(part));
      this.#asked = parts;
      if (html.includes(undefined)) {
        for (const [place, part] of parts.entries()) markdown.want(`${id} ${place}`, part);
        break;
      }
      this.#put(parts, html.join(""));
      if (parts.length > 1) markdown.forget(parts[1]);
      this.#asked = [""];
    }
    if (markdown.isPlain && !text.startsWith(this.#source)) this.#put([""], "");
    this.#end(markdown.isPlain ? text.slice(this.#source.length) : "");
  }

  /** Show what came since the last rendering as it is; it goes on with the paragraph that it ends. */
  #end(rest) {
    const last = this.body.lastElementChild;
    const isNew = /\n\s*\n\s*$/.test(this.#source) || /^\s*\n\s*\n/.test(rest);
    const place = rest && !isNew && last?.matches("p") ? last : this.root;
    if (this.tail.parentNode !== place) place.append(this.tail);
    setText(this.tail, rest);
    this.tail.hidden = !rest;
  }

  /** Replace only the blocks that differ, so that a selection and what was scrolled stays. */
  #put(parts, html) {
    this.#source = parts.join("");
    this.#isWhole = parts.length === 1;
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(html);
    const next = [...template.content.children].map((node) => ({ html: node.outerHTML, node }));
    const same = next.findIndex(({ html: one }, place) => one !== this.#blocks[place]?.html);
    const kept = same < 0 ? next.length : same;
    for (const { node } of this.#blocks.splice(kept)) node.remove();
    for (const { html: one, node } of next.slice(kept)) {
      const shown = dress(node);
      this.body.append(shown);
      this.#blocks.push({ html: one, node: shown });
    }
    lower(this.body);
  }
}

// What reads in one direction as a whole.
const WHOLE = ":is(ul, ol, blockquote, table):not(:is(ul, ol, blockquote, table) *)";

/** Give a rendered block what it needs to be used: directions, copy buttons, tables that scroll. */
function dress(node) {
  const box = make("div", {}, node);
  // A list, a quotation and a table have one direction: their marks stand on the side where it begins.
  // One with a direction of its own inside would not be asked for it.
  for (const block of box.querySelectorAll(WHOLE)) block.dir = "auto";
  for (const block of box.querySelectorAll("p, h1, h2, h3, h4, h5, h6")) {
    if (!block.closest("ul, ol, blockquote, table")) block.dir = "auto";
  }
  for (const link of box.querySelectorAll("a[href]")) link.title ||= link.href;
  for (const table of box.querySelectorAll("table")) {
    const frame = make("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const pre of box.querySelectorAll("pre")) pre.replaceWith(codeBox(pre));
  return box.firstElementChild;
}

/** A message's headings are below the page's own: its h1 is the page's h3, and no level is left out. */
function lower(body) {
  let before = 2;
  for (const heading of body.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    before = Math.min(6, Number(heading.localName[1]) + 2, before + 1);
    heading.role = "heading";
    heading.ariaLevel = String(before);
  }
}

function codeBox(pre) {
  const copy = make("button", { type: "button", className: "quiet", ariaLabel: "Copy code" }, "Copy");
  const text = pre.textContent;
  copy.addEventListener("click", () => copyText(text, copy));
  const language = pre.dataset.language ?? "";
  const label = make("span", { className: "language" }, language);
  const code = make("pre", { tabIndex: 0, role: "group", ariaLabel: `Code ${language}`.trim() });
  code.dir = "ltr";
  code.append(...pre.childNodes);
  return make("div", { className: "code" }, make("div", { className: "code-bar" }, label, copy), code);
}

/** Copy a text and say so on the button, also on an origin where there is no clipboard API. */
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { value: text, className: "visually-hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
