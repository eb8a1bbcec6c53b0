// The list of conversations: search, switch, rename, delete with undo.

import { byId, make, setText, when } from "./dom.js";
import { drawerOpen } from "./keep.js";
import { go, linkTo, MAIN } from "./route.js";
import { toast } from "./toast.js";

const SEARCH_MS = 200;
const NARROW = matchMedia("(width < 48rem)");

const ICONS = {
  rename: "M4 13.5V16h2.5L15 7.5 12.5 5z",
  delete: "M5 6h10M8 6V4h4v2M6.5 6l.5 10h6l.5-10",
  reset: "M5 10a5 5 0 1 1 1.5 3.5M5 6v4h4",
  stop: "M6 6h8v8H6z",
};

/** Shows the conversations. `page` has `gateway`, the one there is now, and `focus()`. */
export class SessionList {
  #list = byId("sessions");
  #shown = new Map();
  #renaming = null;

  constructor(page) {
    this.page = page;
    let timer = 0;
    byId("search").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.page.gateway.search(byId("search").value), SEARCH_MS);
    });
    byId("new").addEventListener("click", () => this.begin());
    byId("sessions-more").addEventListener("click", () => this.page.gateway.showMore());
    byId("archive").addEventListener("toggle", () => this.#showArchive());
    byId("drawer-open").addEventListener("click", () => this.open());
    byId("drawer-close").addEventListener("click", () => this.close());
    byId("shade").addEventListener("click", () => this.close());
    byId("drawer").addEventListener("keydown", (event) => this.#key(event));
    NARROW.addEventListener("change", () => this.#arrange(!NARROW.matches && drawerOpen.load()));
    this.#arrange(!NARROW.matches && drawerOpen.load());
  }

  /** Open the list and put the focus into the search box. */
  search() {
    if (byId("drawer").hidden) this.#arrange(true);
    byId("search").focus();
    byId("search").select();
  }

  /** Open the list. */
  open() {
    this.#arrange(true);
    if (!NARROW.matches) drawerOpen.save(true);
    byId("drawer-close").focus();
  }

  /** Close the list. */
  close() {
    this.#arrange(false);
    if (!NARROW.matches) drawerOpen.save(false);
    byId("drawer-open").focus();
  }

  /** Begin a new conversation. */
  begin() {
    go(this.page.gateway.newKey());
    this.left();
    this.page.focus();
  }

  /** Called when another conversation is shown: on a phone the list makes way. */
  left() {
    if (NARROW.matches) this.#arrange(false);
  }

  /** Open the conversation `step` rows below the one that is shown. */
  move(step) {
    const { gateway } = this.page;
    const rows = tree(gateway.list.rows);
    const place = rows.findIndex(({ row }) => gateway.isShown(row));
    const next = rows[place + step];
    if (next) go(keyOf(next.row));
  }

  /** Bring the list up to date. */
  render(gateway) {
    const { rows, more, search } = gateway.list;
    const running = gateway.running;
    const kept = new Set(rows.map((row) => row.key));
    for (const [key, { root }] of this.#shown) {
      if (kept.has(key)) continue;
      root.remove();
      this.#shown.delete(key);
    }
    let place = this.#list.firstElementChild;
    let anyUnread = false;
    for (const { row, depth } of tree(rows)) {
      const marks = { running: running.has(row.key), unread: gateway.isUnread(row), depth };
      anyUnread ||= marks.unread;
      const { root } = this.#row(row, marks, gateway);
      if (root === place) place = place.nextElementSibling;
      else this.#list.insertBefore(root, place);
    }
    const nothing = search ? "No conversation matches the search." : "Your conversations are listed here.";
    setText(byId("sessions-empty"), gateway.hello && rows.length === 0 ? nothing : "");
    byId("sessions-more").hidden = !more;
    byId("archive").hidden = !gateway.can("sessions.restore");
    byId("unread").hidden = !anyUnread;
  }

  #row(row, marks, gateway) {
    const parts = this.#shown.get(row.key) ?? this.#create(row);
    parts.row = row;
    const title = titleOf(row);
    setText(parts.title, title);
    setText(parts.time, when(row.updatedAt));
    parts.running = marks.running;
    const state = [
      marks.depth && "sub-agent",
      marks.running && "an answer is being written",
      marks.unread && "new messages",
    ];
    setText(parts.state, state.filter(Boolean).map((words) => `, ${words}`).join(""));
    parts.root.dataset.depth = marks.depth;
    parts.root.dataset.mark = marks.running ? "running" : marks.unread ? "unread" : "";
    if (gateway.isShown(row)) parts.link.setAttribute("aria-current", "page");
    else parts.link.removeAttribute("aria-current");
    this.#buttons(parts, gateway, title);
    return parts;
  }

  #create(row) {
    const parts = {
      title: make("span", { className: "name", dir: "auto" }),
      time: make("span", { className: "when" }),
      state: make("span", { className: "visually-hidden" }),
      buttons: make("span", { className: "acts" }),
      seen: "",
    };
    const mark = make("span", { className: "mark", ariaHidden: "true" });
    const { title, state, time, buttons } = parts;
    parts.link = make("a", { href: linkTo(keyOf(row)) }, mark, title, state, time);
    parts.root = make("li", {}, parts.link, buttons);
    this.#shown.set(row.key, parts);
    return parts;
  }

  /** What can be done with a conversation; only what this gateway can. */
  #buttons(parts, gateway, title) {
    const { row } = parts;
    const kinds = [
      row.spawnedBy && parts.running && gateway.can("subagents.kill") && "stop",
      gateway.can("sessions.patch") && "rename",
      !row.isMain && gateway.can("sessions.delete") && "delete",
      row.isMain && gateway.can("sessions.reset") && "reset",
    ].filter(Boolean);
    const seen = `${kinds} ${title}`;
    if (seen === parts.seen) return;
    parts.seen = seen;
    const labels = { rename: "Rename", delete: "Delete", reset: "Reset", stop: "Stop" };
    parts.buttons.replaceChildren(
      ...kinds.map((kind) => {
        const label = `${labels[kind]}: ${title}`;
        const onclick = () => this.#act(kind, parts);
        const options = { type: "button", className: "icon", ariaLabel: label, title: labels[kind] };
        return make("button", { ...options, onclick }, icon(ICONS[kind]));
      }),
    );
  }

  #act(kind, parts) {
    if (kind === "rename") this.#rename(parts);
    else if (kind === "stop") this.#stop(parts.row);
    else this.#remove(parts.row, kind);
  }

  /** Stop a sub-agent; its report is not announced. */
  async #stop(row) {
    try {
      await this.page.gateway.request("subagents.kill", { target: row.key });
    } catch (error) {
      toast(error.message);
    }
  }

  /** Let the title be written in its place: Enter keeps it, Escape does not. */
  #rename(parts) {
    this.#renaming?.remove();
    const input = make("input", { value: titleOf(parts.row), ariaLabel: "New name", maxLength: 120 });
    this.#renaming = input;
    const end = (keep) => {
      if (this.#renaming !== input) return;
      this.#renaming = null;
      const label = input.value.trim();
      input.remove();
      parts.link.hidden = parts.buttons.hidden = false;
      parts.link.focus();
      if (keep && label && label !== titleOf(parts.row)) this.#patch(parts.row, label);
    };
    input.addEventListener("keydown", (event) => {
      if (!["Enter", "Escape"].includes(event.key) || event.isComposing) return;
      event.preventDefault();
      event.stopPropagation();
      end(event.key === "Enter");
    });
    input.addEventListener("blur", () => end(true));
    parts.link.hidden = parts.buttons.hidden = true;
    parts.root.prepend(input);
    input.select();
  }

  async #patch(row, label) {
    const { gateway } = this.page;
    try {
      await gateway.request("sessions.patch", { key: row.key, label });
      gateway.refreshList();
    } catch (error) {
      toast(error.message);
    }
  }

  /** Delete or reset; either can be undone for a while. */
  async #remove(row, kind) {
    const { gateway } = this.page;
    const wasShown = gateway.isShown(row);
    try {
      await gateway.request(`sessions.${kind}`, { key: row.key });
    } catch (error) {
      toast(error.message);
      return;
    }
    if (wasShown && kind === "delete") go(MAIN);
    this.#changed(row.key, wasShown);
    const done = kind === "delete" ? "Conversation deleted." : "The conversation was reset.";
    const undo = gateway.can("sessions.restore") && row.sessionId && (() => this.#restore(row, kind));
    toast(done, undo && "Undo", undo);
  }

  async #restore(row, kind) {
    const { gateway } = this.page;
    try {
      await gateway.request("sessions.restore", { sessionId: row.sessionId });
      if (kind === "delete") go(keyOf(row));
      this.#changed(row.key, true);
    } catch (error) {
      toast(error.message);
    }
  }

  /** Show what was archived; its module is loaded only then. */
  async #showArchive() {
    if (!byId("archive").open) return;
    try {
      const { showArchive } = await import("./archive.js");
      await showArchive(this.page.gateway, (row) => this.#restore(row, "delete"));
    } catch (error) {
      toast(error.message);
    }
  }

  #changed(key, isShown) {
    const { gateway } = this.page;
    gateway.refreshList();
    this.#showArchive();
    if (isShown) gateway.session.sync();
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && NARROW.matches) {
      event.stopPropagation();
      this.close();
      return;
    }
    const links = [...this.#list.querySelectorAll("a:not([hidden])")];
    const place = links.indexOf(document.activeElement);
    const inSearch = document.activeElement === byId("search");
    if (place < 0 && !(inSearch && event.key === "ArrowDown")) return;
    const parts = [...this.#shown.values()].find(({ link }) => link === links[place]);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: links.length - 1 }[event.key];
    if (next !== undefined) (links[next] ?? (next < 0 ? byId("search") : links[place]))?.focus();
    else if (event.key === "F2" && parts?.buttons.childElementCount) this.#rename(parts);
    else if (event.key === "Delete" && parts && !parts.row.isMain) this.#remove(parts.row, "delete");
    else return;
    event.preventDefault();
  }

  #arrange(open) {
    byId("drawer").hidden = !open;
    byId("drawer-open").hidden = open && !NARROW.matches;
    byId("drawer-open").setAttribute("aria-expanded", String(open));
    byId("shade").hidden = !(open && NARROW.matches);
    byId("room").inert = open && NARROW.matches;
  }
}

/** Return by which name a link leads to a conversation. */
function keyOf(row) {
  return row.isMain ? MAIN : row.key;
}

/** Return the rows in the order of the list: sub-agents behind what started them, with their depth. */
export function tree(rows) {
  const keys = new Set(rows.map((row) => row.key));
  const children = Map.groupBy(rows, (row) => (keys.has(row.spawnedBy) ? row.spawnedBy : ""));
  const ordered = [];
  const add = (parent, depth) => {
    for (const row of children.get(parent) ?? []) {
      ordered.push({ row, depth });
      add(row.key, depth + 1);
    }
  };
  add("", 0);
  return ordered;
}

/** Return the title of a conversation. */
export function titleOf(row) {
  const name = row.label || row.derivedTitle;
  if (name) return name;
  return row.isMain ? "Main conversation" : row.displayName || row.key;
}

function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
