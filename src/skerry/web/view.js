// The conversation in the document: keeps one element per item and changes only what differs.

import { byId, clockTime, make, setText } from "./dom.js";
import { copyText, Prose } from "./markdown.js";
import { costOf, outcomeBox, pictures, Thinking, Tools } from "./parts.js";

const NEAR_END = 60; // pixels from the bottom at which the reader still follows the newest text

const PERSON_STATES = {
  kept: "",
  accepted: "",
  waiting: "Waiting for the gateway",
  sending: "Sending",
  queued: "Queued",
  failed: "Not sent",
  dropped: "Dropped from the queue",
};
const ANSWER_STATES = { done: "", writing: "", stopped: "Stopped", failed: "Incomplete answer" };

const EXAMPLES = [
  "Why is the sky blue?",
  "Help me plan a quiet weekend.",
  "Write four lines about the sea.",
];

/**
 * Shows items. `actions` are what the buttons do: `again(item)` asks once more, `takeBack(item)` a
 * message that waits, `changeKey()` opens the panel where `needsKey()`, `resend(key)` and `discard(key)` settle one that was not sent, `example(text)`
 * sends an example; `decide(id, decision)`, `canUndo()` and `undo(run, files)` are for tool calls.
 */
export class ConversationView {
  #log = byId("log");
  #scroller = byId("scroller");
  #latest = byId("latest");
  #shown = new Map();
  #follows = true;
  #top = 0; // where the reader was at the last scroll event
  #key = null;

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
      // What comes into sight gets its true height, which leaves the end too; a person goes up.
      if (scrollHeight - scrollTop - clientHeight < NEAR_END) this.#follows = true;
      else if (scrollTop < this.#top) this.#follows = false;
      this.#top = scrollTop;
      this.#latest.hidden = this.#follows;
    });
    this.#latest.addEventListener("click", () => this.follow());
    const sizes = new ResizeObserver(() => this.#settle());
    sizes.observe(this.#scroller);
    sizes.observe(this.#log);
  }

  /** Scroll to the newest text and stay with it. */
  follow() {
    this.#follows = true;
    this.#settle();
  }

  /** Show what changes with the time alone. */
  tick(now) {
    for (const { tools } of this.#shown.values()) tools.tick(now);
  }

  /**
   * Show exactly these items of the conversation `key`, in this order. `loaded` says whether its
   * transcript is known; `markdown` renders answers; `approvals` says what of them waits.
   */
  render(key, items, loaded, markdown, approvals) {
    if (this.#key !== key) this.#clear(key);
    byId("welcome").hidden = !loaded || items.length > 0;
    const kept = new Set(items.map((item) => item.id));
    for (const [id, parts] of this.#shown) {
      if (kept.has(id)) continue;
      parts.root.remove();
      this.#shown.delete(id);
    }
    const fromEnd = this.#scroller.scrollHeight - this.#scroller.scrollTop;
    const first = this.#log.firstElementChild;
    let place = first;
    for (const item of items) {
      const { root, tools } = this.#part(item, markdown, approvals);
      if (item.tools?.length > 0) tools.show(item.tools, approvals, item.key);
      if (root === place) place = place.nextElementSibling;
      else this.#log.insertBefore(root, place);
    }
    const hasOlder = first?.isConnected && first !== this.#log.firstElementChild;
    if (hasOlder && !this.#follows) {
      this.#scroller.scrollTop = this.#scroller.scrollHeight - fromEnd;
    }
    this.#settle();
  }

  /** Begin with another conversation, at its end. */
  #clear(key) {
    this.#key = key;
    this.#shown.clear();
    this.#log.replaceChildren();
    this.#follows = true;
  }

  #settle() {
    const isEmpty = !byId("welcome").hidden; // that is read from its top
    if (this.#follows) this.#scroller.scrollTop = isEmpty ? 0 : this.#scroller.scrollHeight;
    const { scrollHeight, clientHeight } = this.#scroller;
    if (this.#follows || scrollHeight <= clientHeight) this.#latest.hidden = true;
  }

  /** Return the item's element and its parts, made or brought up to date. */
  #part(item, markdown, approvals) {
    const parts = this.#shown.get(item.id) ?? this.#create(item);
    const isPerson = item.kind === "person";
    if (parts.item === item && (isPerson || parts.prose.isWhole(item.text))) return parts;
    if (item.outcome) {
      if (parts.item?.text !== item.text) parts.text.replaceChildren(...outcomeBox(item.outcome));
    } else if (isPerson) {
      setText(parts.text, item.text);
    } else {
      this.#answer(parts, item, markdown, approvals);
    }
    parts.root.dataset.state = item.state;
    parts.root.classList.toggle("summarised", Boolean(item.summarised));
    parts.text.hidden = item.text === "";
    this.#images(parts, item.images ?? []);
    this.#foot(parts, item);
    parts.item = item;
    return parts;
  }

  #answer(parts, item, markdown, approvals) {
    const writing = item.state === "writing";
    parts.root.setAttribute("aria-busy", String(writing));
    parts.prose.show(item.id, item.text, markdown, writing);
    const isThinking = writing && item.text === "" && item.thinking !== "";
    parts.thinking.show(item.thinking, isThinking);
    parts.tools.show(item.tools, approvals, item.key);
    const isBusy = isThinking || item.tools.some(({ state }) => state === "working");
    parts.waiting.hidden = !writing || item.text !== "" || isBusy;
  }

  #create(item) {
    const isPerson = item.kind === "person";
    const parts = {
      thinking: new Thinking(),
      tools: new Tools(this.actions),
      prose: new Prose(),
      images: make("div", { className: "pictures", hidden: true }),
      waiting: make("div", { className: "waiting" }, make("span", {}, "Thinking")),
      foot: make("div", { className: "foot" }),
      seenFoot: "",
      seenImages: 0,
    };
    const kind = item.outcome ? "outcome" : item.kind; // no person wrote that
    const who = { person: "You", answer: "Answer", note: "Note" }[kind] ?? item.outcome.title;
    const heading = make("h2", { className: "visually-hidden" }, who);
    const { thinking, tools, prose, images, waiting, foot } = parts;
    parts.text = isPerson ? make("div", { className: "text", dir: "auto" }) : prose.root;
    const before = isPerson ? [] : [thinking.root, tools.root];
    const after = isPerson ? [] : [waiting];
    parts.root = make(
      "article",
      { className: kind },
      heading,
      ...before,
      images,
      parts.text,
      ...after,
      foot,
    );
    this.#shown.set(item.id, parts);
    return parts;
  }

  #images(parts, images) {
    if (images.length === parts.seenImages) return;
    parts.seenImages = images.length;
    parts.images.hidden = images.length === 0;
    parts.images.replaceChildren(...pictures(images));
  }

  /** State, problem, time and buttons; rebuilt only when one of them changed, to keep the focus. */
  #foot(parts, item) {
    const cost = item.usage && item.state !== "writing" ? costOf(item.usage) : "";
    const { notices = [] } = item;
    const { again, resend, discard, takeBack, changeKey, needsKey } = this.actions;
    const isKey = Boolean(item.retry) && needsKey();
    const facts = [item.state, item.problem, item.at, item.retry?.key, isKey, cost, ...notices];
    const seen = facts.join("\n");
    if (seen === parts.seenFoot || item.kind === "note") return;
    parts.seenFoot = seen;
    const isSilent = item.kind === "answer" && item.state === "failed" && item.text === "";
    const states = item.kind === "person" ? PERSON_STATES : ANSWER_STATES;
    const label = isSilent ? "No answer" : states[item.state];
    const nodes = [];
    if (label) nodes.push(make("span", { className: "state" }, label));
    for (const words of [item.problem, ...notices]) {
      if (words) nodes.push(make("span", { className: "problem" }, words));
    }
    if (isKey) nodes.push(button("Change the key", changeKey));
    if (item.retry) nodes.push(button("Try again", () => again(item.retry)));
    if (item.state === "queued" && !item.outcome) nodes.push(button("Withdraw", () => takeBack(parts.item)));
    if (["failed", "dropped"].includes(item.state) && item.kind === "person") {
      nodes.push(button("Send again", () => resend(item.key)));
      nodes.push(button("Discard", () => discard(item.key)));
    }
    if (item.kind === "answer" && item.text && item.state !== "writing") {
      const copy = button("Copy", () => copyText(parts.item.text, copy));
      copy.ariaLabel = "Copy answer";
      nodes.push(copy);
    }
    if (cost) nodes.push(make("span", { className: "cost", title: "Tokens" }, cost));
    if (item.at && !["writing", "queued"].includes(item.state)) {
      const dateTime = new Date(item.at).toISOString();
      nodes.push(make("time", { dateTime }, clockTime(item.at)));
    }
    parts.foot.replaceChildren(...nodes);
  }
}

function button(text, onclick) {
  return make("button", { type: "button", className: "quiet", onclick }, text);
}
