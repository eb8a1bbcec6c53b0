// The conversation in the document: keeps one element per item and changes only what differs.

import { byId, clockTime, make, setText } from "./dom.js";

const NEAR_END = 60; // pixels from the bottom at which the reader still follows the newest text

const PERSON_STATES = {
  kept: "",
  accepted: "",
  waiting: "Waits for the gateway",
  sending: "Sending",
  queued: "Next in line",
  failed: "Not sent",
};
const ANSWER_STATES = { done: "", writing: "", stopped: "Stopped", failed: "Incomplete answer" };

const EXAMPLES = [
  "Why is the sky blue?",
  "Help me plan a quiet weekend.",
  "Write four lines about the sea.",
];

/**
 * Shows items. `actions` are what the buttons do: `again(text)` asks once more, `resend(key)` and
 * `discard(key)` settle a message that was not sent, `example(text)` sends an example.
 */
export class ConversationView {
  #log = byId("log");
  #scroller = byId("scroller");
  #latest = byId("latest");
  #shown = new Map();
  #follows = true;

  constructor(actions) {
    this.actions = actions;
    byId("examples").append(
      ...EXAMPLES.map((text) => {
        const onclick = () => actions.example(text);
        return make("li", {}, make("button", { type: "button", onclick }, text));
      }),
    );
    this.#scroller.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
      this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_END;
      this.#latest.hidden = this.#follows;
    });
    this.#latest.addEventListener("click", () => this.follow());
    new ResizeObserver(() => this.#settle()).observe(this.#scroller);
  }

  /** Scroll to the newest text and stay with it. */
  follow() {
    this.#follows = true;
    this.#settle();
  }

  /** Show exactly these items, in this order. `loaded` says whether the transcript is known. */
  render(items, loaded) {
    byId("welcome").hidden = !loaded || items.length > 0;
    const kept = new Set(items.map((item) => item.id));
    for (const [id, parts] of this.#shown) {
      if (kept.has(id)) continue;
      parts.root.remove();
      this.#shown.delete(id);
    }
    let place = this.#log.firstElementChild;
    for (const item of items) {
      const { root } = this.#part(item);
      if (root === place) place = place.nextElementSibling;
      else this.#log.insertBefore(root, place);
    }
    this.#settle();
  }

  #settle() {
    if (this.#follows) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    const { scrollHeight, clientHeight } = this.#scroller;
    if (this.#follows || scrollHeight <= clientHeight) this.#latest.hidden = true;
  }

  /** Return the item's element and its parts, made or brought up to date. */
  #part(item) {
    const parts = this.#shown.get(item.id) ?? this.#create(item);
    parts.root.dataset.state = item.state;
    parts.root.setAttribute("aria-busy", String(item.state === "writing"));
    setText(parts.text, item.text);
    parts.text.hidden = item.text === "";
    parts.waiting.hidden = item.state !== "writing" || item.text !== "";
    this.#tools(parts, item.tools ?? []);
    this.#foot(parts, item);
    return parts;
  }

  #create(item) {
    const isPerson = item.kind === "person";
    const parts = {
      text: make("div", { className: "text", dir: "auto" }),
      tools: make("ul", { className: "tools", hidden: true }),
      waiting: make("div", { className: "thinking" }, make("span", {}, "Thinking")),
      foot: make("p", { className: "foot" }),
      seenFoot: "",
      seenTools: "",
    };
    const heading = make("h2", { className: "visually-hidden" }, isPerson ? "You" : "Answer");
    parts.root = make(
      "article",
      { className: item.kind },
      heading,
      parts.tools,
      parts.text,
      parts.waiting,
      parts.foot,
    );
    this.#shown.set(item.id, parts);
    return parts;
  }

  #tools(parts, tools) {
    const lines = tools.map(({ name, args, state }) => {
      const about = Object.values(args ?? {}).find((value) => typeof value === "string") ?? "";
      const suffix = { working: " …", failed: " (failed)", done: "" }[state];
      return `${name} ${about}`.trim() + suffix;
    });
    if (lines.join("\n") === parts.seenTools) return;
    parts.seenTools = lines.join("\n");
    parts.tools.hidden = lines.length === 0;
    parts.tools.replaceChildren(...lines.map((line) => make("li", {}, line)));
  }

  /** State, problem, time and buttons; rebuilt only when one of them changed, to keep the focus. */
  #foot(parts, item) {
    const seen = [item.state, item.problem, item.at, item.retry].join("\n");
    if (seen === parts.seenFoot) return;
    parts.seenFoot = seen;
    const { again, resend, discard } = this.actions;
    const isSilent = item.kind === "answer" && item.state === "failed" && item.text === "";
    const states = item.kind === "person" ? PERSON_STATES : ANSWER_STATES;
    const label = isSilent ? "No answer" : states[item.state];
    const nodes = [];
    if (label) nodes.push(make("span", { className: "state" }, label));
    if (item.problem) nodes.push(make("span", { className: "problem" }, item.problem));
    if (item.retry) nodes.push(button("Try again", () => again(item.retry)));
    if (item.kind === "person" && item.state === "failed") {
      nodes.push(button("Send again", () => resend(item.key)));
      nodes.push(button("Discard", () => discard(item.key)));
    }
    if (item.at && item.state !== "writing") {
      const dateTime = new Date(item.at).toISOString();
      nodes.push(make("time", { dateTime }, clockTime(item.at)));
    }
    parts.foot.replaceChildren(...nodes);
  }
}

function button(text, onclick) {
  return make("button", { type: "button", className: "quiet", onclick }, text);
}
