// The panel's tab to erase text: shows the matches of some words, and erases them on request.

import { make } from "../dom.js";
import { button, teller, wrong } from "./pieces.js";

const MOST = 20; // phrases at once, as the gateway has it
const COUNTS = {
  messages: ["message", "messages"],
  summaries: ["summary", "summaries"],
  labels: ["name of a conversation", "names of conversations"],
  runs: ["run of the ledger", "runs of the ledger"],
  replies: ["undelivered reply", "undelivered replies"],
  records: ["record of a job or a sender", "records of jobs and senders"],
  media: ["copied file", "copied files"],
  answers: ["stored answer", "stored answers"],
  documents: ["document of the index", "documents of the index"],
};

/** The tab. `panel` has `ask(method, params)` and `openFile(path, line)`. */
export class ForgetView {
  root = make("section", { className: "memory-forget" });
  #words = make("textarea", {
    rows: 3,
    dir: "auto",
    ariaLabel: "Words to forget, one phrase a line",
    placeholder: "green pot",
  });
  #found = make("ul", { className: "notes" });
  #teller = teller();
  #erase;
  #phrases = []; // that were looked for

  constructor(panel) {
    this.panel = panel;
    const text = "Erases every statement with these words from the files, the conversations and the index. Write each phrase exactly, one on each line. The matches are shown before anything is erased.";
    const look = button("Show the matches", () => this.#look(), "primary");
    this.#erase = button("Erase permanently", () => this.#forget(), "danger");
    this.#erase.hidden = true;
    this.#words.addEventListener("input", () => (this.#erase.hidden = true));
    const acts = make("div", { className: "row" }, look, this.#erase);
    const told = make("p", { className: "about" }, text);
    this.root.append(told, this.#words, acts, this.#teller.line, this.#found);
  }

  /** Be ready to type. */
  show() {
    this.#words.focus();
  }

  async #look() {
    const lines = this.#words.value.split("\n").map((line) => line.trim());
    this.#phrases = lines.filter(Boolean).slice(0, MOST);
    if (this.#phrases.length === 0) return;
    const found = await this.#ask({ dryRun: true });
    if (!found) return;
    const counts = counted(found);
    this.#erase.hidden = !counts;
    const nowhere = "No text has these words. The tab Search finds by meaning.";
    this.#teller.tell("", counts ? `To be erased permanently: ${counts}.` : nowhere);
    this.#show(found, found.lines);
  }

  async #forget() {
    this.#erase.disabled = true;
    const found = await this.#ask({});
    this.#erase.disabled = false;
    if (!found) return;
    this.#erase.hidden = true;
    const waits = found.waits ? "Runs in progress may still use it; their results are searched once more when they end." : "";
    const near = found.near.length > 0 ? "Nearest remaining passages; check whether they still contain it." : "";
    this.#teller.tell("good", `Forgotten: ${counted(found) || "nothing, no text had these words"}.`, waits, near);
    this.#show(found, found.near);
  }

  async #ask(more) {
    this.#teller.tell("", "Looking");
    this.#found.replaceChildren();
    try {
      return await this.panel.ask("memory.forget", { phrases: this.#phrases, ...more });
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
      return null;
    }
  }

  /** Show passages with their places, then what is left alone, and the backups that have it. */
  #show({ left, backups }, lines) {
    const rows = lines.map(({ path, line, text }) => {
      const place = button(`${path}, line ${line}`, () => this.panel.openFile(path, line), "place");
      return make("li", {}, make("p", { dir: "auto" }, text ?? ""), place);
    });
    const kept = left.map(({ path, reason }) => `Not changed: ${path}: ${reason}`);
    const copies = backups.map(({ name, until, remedy }) => {
      const end = until ? `, until about ${new Date(until).toLocaleString()}` : "";
      return `The backup ${name} still has it${end}. ${remedy}`;
    });
    const notes = [...kept, ...copies].map((note) => make("li", { className: "none" }, note));
    this.#found.replaceChildren(...rows, ...notes);
  }
}

/** Return how many of what; "" where it is nowhere. */
function counted(found) {
  const told = Object.entries(COUNTS).map(([name, [one, many]]) => tell(found[name], one, many));
  return [tell(found.lines.length, "statement in files", "statements in files"), ...told].filter(Boolean).join(", ");
}

function tell(count, one, many) {
  return count ? `${count} ${count === 1 ? one : many}` : "";
}
