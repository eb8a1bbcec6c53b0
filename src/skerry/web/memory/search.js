// The panel's search: passages with the reasons for their rank.

import { make, setText } from "../dom.js";
import { button, teller, wrong } from "./pieces.js";

const SOURCES = [
  ["", "Everywhere"],
  ["memory", "In files"],
  ["sessions", "In conversations"],
];
const MOST = 20;
const DAY_MS = 24 * 60 * 60 * 1000;

/** The tab. `panel` has `ask(method, params)`, `openFile(path, first, last)` and `leave(session)`. */
export class SearchView {
  root = make("section", { className: "memory-search" });
  #words = make("input", {
    type: "search",
    placeholder: "Who is my dentist?",
    ariaLabel: "Search the memory",
    autocomplete: "off",
    maxLength: 2000,
  });
  #source = make("select", { ariaLabel: "Where" });
  #since = make("input", { type: "date", ariaLabel: "From this day on" });
  #until = make("input", { type: "date", ariaLabel: "Up to this day" });
  #hits = make("ol", { className: "hits" });
  #teller = teller();
  #asked = 0;

  constructor(panel) {
    this.panel = panel;
    this.#source.append(...SOURCES.map(([value, label]) => make("option", { value }, label)));
    const submit = make("button", { className: "primary" }, "Search");
    const days = make("span", { className: "days" }, this.#since, make("span", {}, "to"), this.#until);
    const form = make("form", { className: "ask" }, this.#words, this.#source, days, submit);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search();
    });
    this.root.append(form, this.#teller.line, this.#hits);
    this.#teach();
  }

  /** Be ready to type. */
  show() {
    this.#words.focus();
    this.#look();
  }

  /** Tell whether the memory of a plugin works; it has no files. */
  async #look() {
    try {
      const { backend, mode, notes } = await this.panel.ask("memory.status");
      if (["builtin", "qmd"].includes(backend) || this.#asked) return;
      this.#teller.tell(mode === "none" ? "bad" : "", ...notes);
      const lines = [
        `The memory of agents is that of the plugin ${backend}. Notes in MEMORY.md work beside it.`,
        'To forget something, write "/forget the dentist" in a conversation, or use the tab Forget.',
      ];
      this.#hits.replaceChildren(...lines.map((line) => make("li", { className: "none" }, line)));
    } catch (error) {
      if (!this.#asked) this.#teller.tell("bad", ...wrong(error));
    }
  }

  async #search() {
    const query = this.#words.value.trim();
    if (!query) return;
    const turn = ++this.#asked;
    this.#teller.tell("", "Looking");
    try {
      const params = { query, limit: MOST, explain: true, ...this.#narrowed() };
      const found = await this.panel.ask("memory.search", params);
      if (turn === this.#asked) this.#render(found);
    } catch (error) {
      if (turn === this.#asked) this.#teller.tell("bad", ...wrong(error));
    }
  }

  #narrowed() {
    const params = {};
    if (this.#source.value) params.source = this.#source.value;
    if (this.#since.value) params.since = startOf(this.#since.value);
    if (this.#until.value) params.until = startOf(this.#until.value) + DAY_MS;
    return params;
  }

  #render({ results, mode, backend, provider, model, fallback, notes }) {
    const how = mode === "hybrid" ? `by words and meaning (${model ? `${provider}/${model}` : provider})` : "by words";
    const count = results.length === 1 ? "One passage" : `${results.length} passages`;
    const told = [results.length ? `${count}, compared ${how}, by ${backend}.` : ""];
    if (fallback) told.push(`${fallback.from}: ${fallback.reason}.`);
    this.#teller.tell(fallback ? "wait" : "", ...told, ...notes);
    this.#hits.replaceChildren(...results.map((hit) => this.#hit(hit)));
    if (results.length > 0) return;
    const text = "No hits. Try other words, or fewer; the tab Index shows the state of the index.";
    this.#hits.append(make("li", { className: "none" }, text));
  }

  #hit(hit) {
    const { path, startLine: first, endLine: last, at, sessionKey } = hit;
    const lines = first === last ? `line ${first}` : `lines ${first} to ${last}`;
    const place = button(`${this.panel.title(sessionKey) ?? path}, ${lines}`, () => this.panel.openFile(path, first, last), "place");
    const head = make("div", { className: "hit-head" }, place);
    if (at) head.append(make("time", {}, new Date(at).toLocaleDateString()));
    if (sessionKey) head.append(button("Conversation", () => this.panel.leave(sessionKey)));
    const score = make("meter", { min: 0, max: 1, value: hit.score, ariaLabel: "Score" });
    head.append(make("span", { className: "score" }, score, hit.score.toFixed(3)));
    const text = make("p", { className: "passage", dir: "auto" });
    setText(text, hit.text.trim());
    return make("li", {}, head, text, why(hit.explanation ?? []));
  }

  #teach() {
    const lines = [
      "The memory of agents is in Markdown files: MEMORY.md for lasting facts, memory/2026-11-22.md for the notes of a day. Agents search these files, and earlier conversations, by words and by meaning.",
      'To note something, write "/remember The dentist is Dr. Maro." in a conversation, or use the tab Notes.',
      'Passages with the words that you quote come first: "error 0x80070005".',
    ];
    this.#hits.append(...lines.map((line) => make("li", { className: "none" }, line)));
  }
}

/** Return why a hit is where it is, folded. */
function why(parts) {
  const rows = parts.map(({ name, value, means }) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { className: "number" }, name.endsWith(".rank") ? String(value) : value.toFixed(4)),
      make("td", {}, means),
    ),
  );
  const table = make("table", {}, make("tbody", {}, ...rows));
  const summary = make("summary", {}, "Reasons for this rank");
  return make("details", { hidden: rows.length === 0 }, summary, table);
}

/** Return when a day `YYYY-MM-DD` begins here, in ms. */
function startOf(day) {
  return new Date(`${day}T00:00`).getTime();
}
