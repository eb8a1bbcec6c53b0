// Parts of an item that fold: what was thought, what tools did; and its pictures and its cost.

import { make, setText } from "./dom.js";
import { suspicion, ToolCard } from "./toolcard.js";
import { output } from "./visible.js";

/** The folded thoughts before an answer. */
export class Thinking {
  #label = make("span", {}, "Thoughts");
  #text = make("div", { className: "thoughts", dir: "auto" });

  constructor() {
    this.root = make(
      "details",
      { className: "fold", hidden: true },
      make("summary", {}, this.#label),
      this.#text,
    );
  }

  /** Show the text; `working` while it may still grow. */
  show(text, working) {
    this.root.hidden = text === "";
    setText(this.#label, working ? "Thinking" : "Thoughts");
    this.#label.className = working ? "breathing" : "";
    setText(this.#text, text);
  }
}

/** The tool calls of an answer, each a card. `actions` are those of cards. */
export class Tools {
  #shown = new Map();
  #actions;

  constructor(actions) {
    this.#actions = actions;
    this.root = make("ul", { className: "tools", ariaLabel: "Tools used", hidden: true });
  }

  /** Show these calls of a run, and what of `approvals` is about them. */
  show(tools, approvals, run) {
    this.root.hidden = tools.length === 0;
    for (const [id, { root }] of this.#shown) {
      if (tools.some((tool) => tool.id === id)) continue;
      root.remove();
      this.#shown.delete(id);
    }
    for (const tool of tools) {
      const card = this.#shown.get(tool.id) ?? this.#create(tool);
      card.show(tool, approvals?.of(tool.id), approvals?.decided.get(tool.id), run);
    }
  }

  /** Show what changes with the time alone. */
  tick(now) {
    for (const card of this.#shown.values()) card.tick(now);
  }

  #create(tool) {
    const card = new ToolCard(tool, this.#actions);
    this.#shown.set(tool.id, card);
    this.root.append(card.root);
    return card;
  }
}

/** Return the nodes of the outcome of a call, or of a sub-agent, whose answer had continued without it. */
export function outcomeBox({ tool, how, words, result, suspect, folded }) {
  const head = make("p", { className: "place" }, make("code", {}, tool), ` ${words}`);
  head.dataset.how = how;
  const nodes = [head];
  if (suspect) nodes.push(make("p", { className: "suspect" }, suspicion([suspect])));
  if (!result) return nodes;
  const shown = make("pre", { tabIndex: 0, dir: "auto" }, ...output(result));
  nodes.push(folded ? make("details", {}, make("summary", {}, "Report"), shown) : shown);
  return nodes;
}

/** Return the pictures of a message; images come with it, never from the net. */
export function pictures(images) {
  return images.map(({ mimeType, content, fileName }) =>
    make("img", {
      src: `data:${mimeType};base64,${content}`,
      alt: fileName ? `Image ${fileName}` : "Image",
    }),
  );
}

/** Return a usage in words: tokens in and out, and the cost where it is known; "" of nothing. */
export function costOf({ input, output, cost }) {
  if (!input && !output) return "";
  const tokens = `${count(input)} in, ${count(output)} out`;
  if (!cost) return tokens;
  const digits = cost < 0.01 ? 4 : 2;
  return `${tokens}, $${cost.toFixed(digits)}`;
}

/** Return a number as a person reads it: 950, 1.2k, 3.4M. */
export function count(number) {
  const options = { notation: "compact", maximumSignificantDigits: number < 1000 ? 3 : 2 };
  return number.toLocaleString("en", options).replace("K", "k");
}
