// The panel of what an agent remembers. It is loaded when it is first opened.

import { make } from "../dom.js";
import { titleOf } from "../list.js";
import { go } from "../route.js";
import { FilesView } from "./files.js";
import { ForgetView } from "./forget.js";
import { NotesView } from "./notes.js";
import { button } from "./pieces.js";
import { SearchView } from "./search.js";
import { StateView } from "./state.js";
import { TrustView } from "./trust.js";

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "memory", ariaLabel: "Memory" });
  #agents = make("select", { ariaLabel: "Agent", hidden: true });
  #tabs = new Map();
  #shown = "";
  #style = styled(new URL("panel.css", import.meta.url).href);

  constructor(page) {
    this.page = page;
    const views = {
      Search: new SearchView(this),
      Files: new FilesView(this),
      Notes: new NotesView(this),
      Index: new StateView(this),
      ...(this.can("files.list") && { Trust: new TrustView(this) }),
      ...(this.can("memory.forget") && { Forget: new ForgetView(this) }),
    };
    const list = make("div", { className: "tabs", role: "tablist", ariaLabel: "Memory" });
    const body = make("div", { className: "memory-body" });
    for (const [name, view] of Object.entries(views)) {
      const id = `memory-${name.toLowerCase()}`;
      const tab = make("button", { type: "button", role: "tab", id: `${id}-tab` }, name);
      tab.setAttribute("aria-controls", id);
      tab.addEventListener("click", () => this.show(name));
      Object.assign(view.root, { id, role: "tabpanel" });
      view.root.setAttribute("aria-labelledby", tab.id);
      this.#tabs.set(name, { tab, view });
      list.append(tab);
      body.append(view.root);
    }
    list.addEventListener("keydown", (event) => this.#walk(event));
    this.#agents.addEventListener("change", () => this.#tabs.get(this.#shown).view.show());
    const close = button("Close", () => this.#dialog.close());
    this.#dialog.append(
      make("header", { className: "memory-head" }, make("h2", {}, "Memory"), this.#agents, close),
      list,
      body,
    );
    this.#dialog.addEventListener("close", () => this.#tabs.get(this.#shown).view.hide?.());
    window.addEventListener("beforeunload", (event) => views.Files.isDirty && event.preventDefault());
    document.body.append(this.#dialog);
  }

  /** Return what the list calls a conversation; undefined without one. */
  title(sessionKey) {
    const row = this.page.gateway.list.rows.find(({ key }) => key === sessionKey);
    return row ? titleOf(row) : (sessionKey ?? undefined);
  }

  /** Open it where it was left. */
  async open() {
    await this.#style;
    this.#offerAgents();
    this.#dialog.showModal();
    this.show(this.#shown || "Search");
  }

  /** Show one of its tabs; return its view. */
  show(name) {
    if (name !== this.#shown) this.#tabs.get(this.#shown)?.view.hide?.();
    this.#shown = name;
    for (const [other, { tab, view }] of this.#tabs) {
      tab.ariaSelected = String(other === name);
      tab.tabIndex = other === name ? 0 : -1;
      view.root.hidden = other !== name;
    }
    const { view } = this.#tabs.get(name);
    view.show();
    return view;
  }

  /** Follow what changed on the page; what is closed reads it when it opens. */
  render() {
    if (this.#dialog.open) this.#tabs.get(this.#shown).view.render?.();
  }

  /** Go to a conversation. */
  leave(session) {
    this.#dialog.close();
    go(session);
  }

  /** Show a file, with these lines marked. */
  openFile(path, first = 0, last = first) {
    this.show("Files").open(path, first, last);
  }

  /** Whether the gateway has this method. */
  can(method) {
    return this.page.gateway.can(method);
  }

  /** Ask the gateway about the memory of the agent that is chosen. */
  ask(method, params = {}) {
    const agent = this.#agents.value;
    return this.page.gateway.request(method, agent ? { ...params, agentId: agent } : params);
  }

  #offerAgents() {
    const { names, hello } = this.page.gateway;
    const chosen = this.#agents.value || hello?.snapshot?.sessionDefaults?.defaultAgentId;
    this.#agents.replaceChildren(
      ...[...names].map(([id, name]) => make("option", { value: id }, name || id)),
    );
    this.#agents.hidden = names.size < 2;
    if (names.has(chosen)) this.#agents.value = chosen;
  }

  #walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const names = [...this.#tabs.keys()];
    const next = names[(names.indexOf(this.#shown) + step + names.length) % names.length];
    this.show(next);
    this.#tabs.get(next).tab.focus();
  }
}

/** Load a style sheet; resolves when it holds. */
function styled(href) {
  return new Promise((resolve, reject) => {
    const link = make("link", { rel: "stylesheet", href, onload: resolve });
    link.onerror = () => reject(new Error("The gateway does not answer."));
    document.head.append(link);
  });
}
