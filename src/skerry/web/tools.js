// The panel of tools: those that the agent of the conversation has, what the rules say about each, and its skills.

import { make, setText } from "./dom.js";
import { skillList } from "./skills.js";

const TITLES = { allow: "Allowed without a question", ask: "Asks you before each call", deny: "Switched off" };

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "setup panel", ariaLabel: "Tools" });
  #told = make("p", { className: "help", role: "status" });
  #lists = make("div");
  #skills = make("div");

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "primary" }, "Close");
    const form = make("form", { method: "dialog" }, make("div", { className: "row end" }, close));
    this.#dialog.append(make("h2", {}, "Tools"), this.#told, this.#lists, this.#skills, form);
    document.body.append(this.#dialog);
  }

  /** Open it, with the tools that there are now. */
  async open() {
    this.#dialog.showModal();
    setText(this.#told, "Tools that the agent of this conversation may use on your behalf. Other people get no tools unless you configure that.");
    const { gateway } = this.page;
    try {
      const { tools } = await gateway.request("tools.list", { sessionKey: gateway.session.key });
      this.#lists.replaceChildren(...Object.keys(TITLES).flatMap((decision) => this.#list(decision, tools)));
    } catch (error) {
      this.#lists.replaceChildren(make("p", { className: "help bad" }, error.message));
    }
    try {
      this.#skills.replaceChildren(await skillList(this.page));
    } catch (error) {
      this.#skills.replaceChildren(make("p", { className: "help bad" }, error.message));
    }
  }

  /** Return the tools with one decision; those that are off are folded. */
  #list(decision, tools) {
    const rows = tools.filter((tool) => tool.decision === decision).map((tool) => this.#row(tool));
    if (rows.length === 0) return [];
    const title = `${TITLES[decision]} (${rows.length})`;
    const list = make("ul", { className: "questions" }, ...rows);
    return [make("details", { open: decision !== "deny" }, make("summary", {}, title), list)];
  }

  #row({ tool, description, isPlugin, rule, reason }) {
    const from = isPlugin ? make("span", { className: "state" }, " of a plugin") : "";
    return make(
      "li",
      {},
      make("p", {}, make("strong", {}, tool), from),
      make("p", { className: "help", dir: "auto" }, description),
      make("p", { className: "help", dir: "auto" }, "Rule: ", make("code", {}, rule), reason ? ` (${reason})` : ""),
    );
  }
}
