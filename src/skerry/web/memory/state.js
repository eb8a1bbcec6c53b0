// The panel's index: who answers, what is indexed, what is not as it should be.

import { make } from "../dom.js";
import { button, teller, wrong } from "./pieces.js";

const POLL_MS = 1000;

/** The tab. `panel` has `ask(method, params)`. */
export class StateView {
  root = make("section", { className: "memory-state" });
  #facts = make("dl", { className: "facts" });
  #notes = make("ul", { className: "warnings" });
  #bar = make("div", { className: "progress", hidden: true });
  #teller = teller();
  #timer = 0;
  #isShown = false;
  #first = null; // what the progress of this stage was when it was seen first
  #buttons = [];

  constructor(panel) {
    this.panel = panel;
    this.#buttons = [
      button("Update the index", () => this.#sync(false), "primary"),
      button("Rebuild the index", () => this.#sync(true)),
    ];
    const acts = make("div", { className: "row" }, ...this.#buttons);
    this.root.append(this.#facts, this.#notes, this.#bar, acts, this.#teller.line);
  }

  /** Show it, and keep it as it is now. */
  show() {
    this.#isShown = true;
    this.#read();
  }

  /** Ask no more. */
  hide() {
    this.#isShown = false;
    clearTimeout(this.#timer);
  }

  async #read() {
    clearTimeout(this.#timer);
    try {
      this.#render(await this.panel.ask("memory.status"));
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
    clearTimeout(this.#timer);
    if (this.#isShown) this.#timer = setTimeout(() => this.#read(), POLL_MS);
  }

  #render(now) {
    const model = now.model ? `${now.provider}/${now.model}` : "none: searches compare words only";
    const share = now.chunks ? ` (${Math.floor((100 * now.vectors) / now.chunks)} %)` : "";
    const rows = ["builtin", "qmd"].includes(now.backend) ? this.#indexed(now, model, share) : plugged(now);
    this.#facts.replaceChildren(
      ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
    const fallen = now.fallback ? [`${now.fallback.from} does not answer: ${now.fallback.reason}`] : [];
    this.#notes.replaceChildren(...[...fallen, ...now.notes].map((note) => make("li", {}, note)));
    const { progress } = now;
    this.#bar.hidden = !progress;
    if (!progress) return;
    const label = `${progress.stage}: ${progress.done} of ${progress.total}${this.#pace(progress)}`;
    const bar = make("progress", { max: progress.total || 1, value: progress.done, ariaLabel: label });
    this.#bar.replaceChildren(bar, make("span", {}, label));
  }

  /** Return the rows of a memory that has an index. */
  #indexed(now, model, share) {
    return [
      ["Backend", now.backend],
      ["Search", now.mode === "hybrid" ? "by words and meaning" : "by words"],
      ["Model", model],
      ["Documents", String(now.files)],
      ...now.sources.map(({ source, files, chunks, vectors }) => [
        source === "sessions" ? "Conversations" : "Markdown",
        `${files}, in ${chunks} passages${now.model ? `, ${vectors} with a vector` : ""}`,
      ]),
      ...waiting(now.backlog),
      ["Passages", String(now.chunks)],
      ["With a vector", `${now.vectors}${share}`],
      ["Indexed", now.indexedAt ? new Date(now.indexedAt).toLocaleString() : "not yet"],
      ["Changed since", now.dirty ? "yes; the next search updates it" : "no"],
      ["Index", now.database],
    ];
  }

  /** Return the rate and the remaining time, once they are known. */
  #pace({ stage, done, total }) {
    const at = performance.now();
    if (this.#first?.stage !== stage || done < this.#first.done) this.#first = { stage, done, at };
    const rate = (1000 * (done - this.#first.done)) / (at - this.#first.at);
    if (!(rate > 0)) return "";
    const left = Math.round((total - done) / rate);
    const time = left < 90 ? `${left} s` : left < 5400 ? `${Math.round(left / 60)} min` : `${Math.round(left / 3600)} h`;
    return `, ${rate.toFixed(1)} a second, about ${time} left`;
  }

  async #sync(force) {
    for (const one of this.#buttons) one.disabled = true;
    this.#teller.tell("", force ? "Rebuilding the index; searches use the old one meanwhile" : "Checking the files");
    this.#read();
    try {
      const done = await this.panel.ask("memory.sync", { force });
      const { added, changed, removed, unchanged, embedded, failed } = done;
      const counts = `${added} new, ${changed} changed, ${removed} removed, ${unchanged} unchanged; ${embedded} embedded.`;
      const bad = failed.map(({ path, reason }) => `${path}: ${reason}`);
      this.#teller.tell(bad.length > 0 ? "bad" : "good", counts, ...bad);
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
    for (const one of this.#buttons) one.disabled = false;
    this.#read();
  }
}

/** Returns the row of passages without a vector, which only word search finds, and the time that they need. */
function waiting(backlog) {
  if (!backlog) return [];
  const { notes, said, seconds } = backlog;
  const counts = [notes && `${notes} in notes`, said && `${said} in conversations`].filter(Boolean).join(" and ");
  const ready = seconds === null ? "conversations get no vectors" : `computed in about ${span(seconds)}`;
  return [["Without a vector", `${counts}; ${ready}`]];
}

function span(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** Return the rows of the memory of a plugin, which has no index here. */
function plugged(now) {
  return [
    ["Backend", now.backend],
    ["Available", now.mode === "none" ? "no" : "yes"],
    ["Memories", String(now.chunks)],
  ];
}
