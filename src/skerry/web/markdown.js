// Markdown in the document. The gateway renders and sanitises it; this is the only place where HTML
// enters the page, and the content security policy would stop what should not be in it.

import { make, setText } from "./dom.js";

const BATCH = 48; // texts of a request
const BATCH_CHARS = 200_000;
const KEPT_CHARS = 4_000_000;

const policy = globalThis.trustedTypes?.createPolicy("skerry-markdown", {
  createHTML: (html) => html,
}) ?? { createHTML: (html) => html }; // Browsers without trusted types take the text.

/** Markdown as HTML, asked for in batches and kept. `changed()` is called when there is more. */
export class Markdown {
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
    return this.#kept.get(text);
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
      for (const [id, text] of this.#wanted) if (batch.includes(text)) this.#wanted.delete(id);
      if (!(await this.#fetch(batch))) break;
      this.changed();
    }
    this.#wanted.clear();
    this.#asking = false;
  }

  async #fetch(texts) {
    const html = await this.ask(texts);
    html?.forEach((one, place) => this.#keep(texts[place], one));
    return html !== null;
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
 * Return how much of a growing text is made of finished paragraphs: up to the last empty line that
 * is not inside a fence.
 */
export function finished(text) {
  let fence = "";
  let end = 0;
  let place = 0;
  for (const line of text.split("\n")) {
    const [, mark = ""] = /^ {0,3}(`{3,}|~{3,})/.exec(line) ?? [];
    if (!fence) fence = mark;
    else if (mark.startsWith(fence)) fence = "";
    place += line.length + 1;
    if (!fence && line.trim() === "" && place <= text.length) end = place;
  }
  return end;
}

/** An answer's text: rendered as far as its HTML is known, and plain after that. */
export class Prose {
  #source = "";
  #blocks = []; // of the rendered part: {html, node}

  constructor() {
    this.body = make("div", { className: "md" });
    this.tail = make("div", { className: "tail", dir: "auto" });
    this.root = make("div", { className: "text" }, this.body, this.tail);
  }

  /** Show the text; `markdown` renders it, of a `growing` one only what is finished. */
  show(id, text, markdown, growing) {
    const goal = growing ? text.slice(0, finished(text)) : text;
    const html = markdown.html(goal);
    if (html !== undefined || !text.startsWith(this.#source)) this.#put(goal, html);
    if (html === undefined) markdown.want(id, goal);
    setText(this.tail, text.slice(this.#source.length));
    this.tail.hidden = text.length === this.#source.length;
  }

  /** Replace only the blocks that differ, so that a selection and what was scrolled stays. */
  #put(source, html) {
    this.#source = html === undefined ? "" : source;
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(html ?? "");
    const next = [...template.content.children].map((node) => ({ html: node.outerHTML, node }));
    const same = next.findIndex(({ html: one }, place) => one !== this.#blocks[place]?.html);
    const kept = same < 0 ? next.length : same;
    for (const { node } of this.#blocks.splice(kept)) node.remove();
    for (const { html: one, node } of next.slice(kept)) {
      const shown = dress(node);
      this.body.append(shown);
      this.#blocks.push({ html: one, node: shown });
    }
  }
}

/** Give a rendered block what it needs to be used: directions, copy buttons, tables that scroll. */
function dress(node) {
  const box = make("div", {}, node);
  for (const block of box.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th")) block.dir = "auto";
  for (const link of box.querySelectorAll("a[href]")) link.title ||= link.href;
  for (const heading of box.querySelectorAll("h1, h2, h3, h4, h5, h6")) lower(heading);
  for (const table of box.querySelectorAll("table")) {
    const frame = make("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const pre of box.querySelectorAll("pre")) pre.replaceWith(codeBox(pre));
  return box.firstElementChild;
}

/** A message's headings stand below the page's own: h1 of a message is the page's h3. */
function lower(heading) {
  heading.role = "heading";
  heading.ariaLevel = String(Math.min(6, Number(heading.localName[1]) + 2));
}

function codeBox(pre) {
  const copy = make("button", { type: "button", className: "quiet", ariaLabel: "Copy code" }, "Copy");
  const text = pre.textContent;
  copy.addEventListener("click", () => copyText(text, copy));
  const language = pre.dataset.language ?? "";
  const label = make("span", { className: "language" }, language);
  const code = make("pre", { tabIndex: 0, role: "region", ariaLabel: `Code ${language}`.trim() });
  code.dir = "ltr";
  code.append(...pre.childNodes);
  return make("div", { className: "code" }, make("div", { className: "code-bar" }, label, copy), code);
}

/** Copy a text and say so on the button, also on an origin where there is no clipboard API. */
async function copyText(text, button) {
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
