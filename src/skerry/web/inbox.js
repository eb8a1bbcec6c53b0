// The inbox of approvals: all calls that wait for a person, of every conversation.

import { make, setText } from "./dom.js";
import { Question } from "./asking.js";
import { titleOf } from "./list.js";
import { go } from "./route.js";

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "setup panel inbox", ariaLabel: "Approvals" });
  #list = make("ul", { className: "questions" });
  #none = make("p", { className: "help", role: "status" });
  #shown = new Map(); // rows by the id of the approval
  #timer = 0;

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "quiet" }, "Close");
    const form = make("form", { method: "dialog" }, make("div", { className: "row end" }, close));
    this.#dialog.append(make("h2", {}, "Approvals"), this.#none, this.#list, form);
    this.#dialog.addEventListener("close", () => clearInterval(this.#timer));
    document.body.append(this.#dialog);
  }

  /** Open it, with what waits now. */
  open() {
    this.#dialog.showModal();
    this.#timer = setInterval(() => this.#tick(), 1000);
    this.render();
    void this.page.gateway.approvals.read();
  }

  /** Show what waits; what is there already keeps its buttons, and so the focus. */
  render() {
    if (!this.#dialog.open) return;
    const { approvals } = this.page.gateway;
    const ids = new Set(approvals.pending.map(({ id }) => id));
    for (const [id, { root }] of this.#shown) {
      if (ids.has(id)) continue;
      const hadFocus = root.contains(document.activeElement);
      const next = root.nextElementSibling ?? root.previousElementSibling;
      root.remove();
      this.#shown.delete(id);
      // Not to a button of the next: a second press of the key would decide that too.
      if (hadFocus) (next?.querySelector(".question") ?? this.#dialog.querySelector("form button")).focus();
    }
    for (const approval of approvals.pending) {
      if (!this.#shown.has(approval.id)) this.#add(approval);
      const { link } = this.#shown.get(approval.id);
      setText(link, this.#title(approval));
    }
    setText(this.#none, ids.size === 0 ? "Nothing waits for your approval." : "");
  }

  #add(approval) {
    const { approvals } = this.page.gateway;
    const question = new Question(approval, (id, decision) => approvals.decide(id, decision), true);
    const link = make("button", { type: "button", className: "quiet from", dir: "auto" });
    link.addEventListener("click", () => this.#leave(approval));
    const head = make("p", { className: "asker" }, make("code", {}, approval.tool), " in ", link);
    const root = make("li", {}, head, question.root);
    this.#shown.set(approval.id, { root, question, link });
    this.#list.append(root);
  }

  #title({ sessionKey, agentId }) {
    const row = this.page.gateway.list.rows.find(({ key }) => key === sessionKey);
    return (row && titleOf(row)) || sessionKey || agentId || "a conversation";
  }

  #leave({ sessionKey }) {
    this.#dialog.close();
    if (sessionKey) go(sessionKey);
  }

  #tick() {
    const now = Date.now();
    for (const { question } of this.#shown.values()) question.tick(now);
  }
}
