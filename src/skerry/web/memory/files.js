// The panel's files: by name or by day, each to be read and edited.

import { make, setText, when } from "../dom.js";
import { Editor } from "./editor.js";
import { button, teller, wrong } from "./pieces.js";

const MOST = 2000;
const SESSIONS = "sessions";
const NAMES = { "": "Workspace", [SESSIONS]: "Conversations" };

/** The tab. `panel` has `ask(method, params)`, `can(method)` and `leave(session)`. */
export class FilesView {
  root = make("section", { className: "memory-files" });
  #files = [];
  #total = 0;
  #backend = "";
  #filter = make("input", { type: "search", placeholder: "Filter", ariaLabel: "Filter files" });
  #order = make("select", { ariaLabel: "Order" });
  #list = make("ul", { className: "files" });
  #teller = teller();
  #editor;

  constructor(panel) {
    this.panel = panel;
    this.#editor = new Editor(panel, { saved: () => this.#read(), left: () => this.#leave() });
    this.#order.append(
      make("option", { value: "path" }, "By file"),
      make("option", { value: "day" }, "By day"),
    );
    this.#filter.addEventListener("input", () => this.#render());
    this.#order.addEventListener("change", () => this.#render());
    this.#list.addEventListener("keydown", (event) => this.#walk(event));
    const tools = make("div", { className: "tools" }, this.#filter, this.#order);
    const side = make("div", { className: "side" }, tools, this.#teller.line, this.#list);
    this.root.append(side, this.#editor.root);
  }

  /** Whether something was written that is not saved. */
  get isDirty() {
    return this.#editor.isDirty;
  }

  /** Read what there is. */
  show() {
    this.#read();
  }

  /** Name the conversations as the list names them now. */
  render() {
    for (const row of this.#list.querySelectorAll("button[data-session]")) {
      setText(row.querySelector(".name"), this.panel.title(row.dataset.session));
    }
  }

  /** Open a file, with these lines marked, unless one that is open has changes. */
  async open(path, first = 0, last = first) {
    await this.#editor.open(path, first, last);
    this.root.dataset.open = "";
    this.#mark();
  }

  #leave() {
    delete this.root.dataset.open;
    this.#list.querySelector("[aria-current] , button")?.focus();
  }

  async #read() {
    if (!this.panel.can("memory.files")) {
      this.#teller.tell("bad", "This gateway cannot list files.");
      return;
    }
    try {
      const { files, total, backend } = await this.panel.ask("memory.files", { limit: MOST });
      [this.#files, this.#total, this.#backend] = [files, total, backend];
      this.#render();
    } catch (error) {
      this.#teller.tell("bad", ...wrong(error));
    }
  }

  #render() {
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = this.#files.filter(({ path, sessionKey }) =>
      `${path} ${sessionKey ?? ""} ${this.panel.title(sessionKey) ?? ""}`.toLowerCase().includes(wanted),
    );
    const groups = this.#order.value === "day" ? byDay(found) : byFolder(found);
    this.#list.replaceChildren(
      ...[...groups].flatMap(([name, files]) => [
        make("li", { className: "group" }, name),
        ...files.map((file) => this.#row(file)),
      ]),
    );
    const left = this.#total - this.#files.length;
    this.#teller.tell("", left > 0 ? `${left} older ones are not listed.` : "");
    if (this.#files.length === 0) this.#teach();
    else if (found.length === 0) this.#list.append(make("li", { className: "none" }, "No file has this name."));
    this.#mark();
  }

  #row(file) {
    const { path, passages, vectors, error, changedAt, size, sessionKey, encoding } = file;
    const open = button("", () => this.open(path), "file");
    const unknown = this.#backend === "qmd" ? "searched by QMD" : "not indexed yet";
    const state = error || (passages === null ? unknown : passages === 1 ? "1 passage" : `${passages} passages`);
    const parts = [
      sessionKey ? "" : kilo(size),
      state,
      howFound(passages, vectors),
      encoding ? `read as ${encoding}` : "",
      when(changedAt),
    ];
    const about = parts.filter(Boolean).join(" · ");
    open.append(
      make("span", { className: "name", dir: "auto" }, this.panel.title(sessionKey) ?? path.split("/").at(-1)),
      make("span", { className: "about" }, about),
    );
    open.title = path;
    open.dataset.path = path;
    if (sessionKey) open.dataset.session = sessionKey;
    if (error) open.dataset.kind = "bad";
    return make("li", {}, open);
  }

  #teach() {
    const begin = button("Begin MEMORY.md", () => this.#begin("MEMORY.md"), "primary");
    const text = "The memory is empty. MEMORY.md holds lasting facts, one a line.";
    this.#list.append(make("li", { className: "none" }, text), make("li", { className: "none" }, begin));
  }

  async #begin(path) {
    await this.open(path);
    this.#editor.edit("# What always counts\n\n- ");
  }

  #mark() {
    for (const row of this.#list.querySelectorAll("button.file")) {
      if (row.dataset.path === this.#editor.path) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  #walk(event) {
    const rows = [...this.#list.querySelectorAll("button.file")];
    const place = rows.indexOf(document.activeElement);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (place < 0 || next === undefined) return;
    event.preventDefault();
    rows[next]?.focus();
  }
}

/** Return files by their folder, the workspace's own first. */
function byFolder(files) {
  const folderOf = ({ path, sessionKey }) => (sessionKey ? SESSIONS : path.split("/").slice(0, -1).join("/"));
  const sorted = [...Map.groupBy(files, folderOf)].sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(sorted.map(([folder, found]) => [NAMES[folder] ?? folder, found]));
}

/** Return files by day, the latest first: a log's own day, else that of the last change. */
function byDay(files) {
  const dayOf = ({ day, changedAt }) => day ?? new Date(changedAt).toLocaleDateString("sv");
  const sorted = files.toSorted((a, b) => (dayOf(a) < dayOf(b) ? 1 : -1));
  const shown = (file) => {
    const date = new Date(`${dayOf(file)}T12:00`);
    return date.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
  };
  return Map.groupBy(sorted, shown);
}

function kilo(size) {
  return size < 1000 ? `${size} B` : `${(size / 1000).toFixed(1)} kB`;
}

/** How the passages of a document are found; empty where that is not known. */
function howFound(passages, vectors) {
  if (!passages || vectors === null) return "";
  if (vectors === passages) return "by words and meaning";
  return vectors === 0 ? "by words" : `by words, ${vectors} by meaning too`;
}
