// Parts of an item that fold: what was thought, what tools did; and its pictures and its cost.

import { make, setText } from "./dom.js";

const TOOL_STATES = { working: "…", failed: "(failed)", done: "", unknown: "" };

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

/** The tool calls of an answer, each folded over its arguments and its result. */
export class Tools {
  #shown = new Map();

  constructor() {
    this.root = make("ul", { className: "tools", ariaLabel: "Tools used", hidden: true });
  }

  /** Show these calls. */
  show(tools) {
    this.root.hidden = tools.length === 0;
    for (const [id, { root }] of this.#shown) {
      if (tools.some((tool) => tool.id === id)) continue;
      root.remove();
      this.#shown.delete(id);
    }
    for (const tool of tools) this.#show(tool);
  }

  #show(tool) {
    const parts = this.#shown.get(tool.id) ?? this.#create(tool);
    parts.root.dataset.state = tool.state;
    setText(parts.state, TOOL_STATES[tool.state]);
    setText(parts.result, tool.result);
    parts.resultPart.hidden = !tool.result;
  }

  #create({ id, name, args }) {
    const about = Object.values(args ?? {}).find((value) => typeof value === "string") ?? "";
    const state = make("span", { className: "tool-state" });
    const result = make("pre", { tabIndex: 0 });
    const resultPart = make("div", {}, make("p", { className: "label" }, "Result"), result);
    const root = make(
      "li",
      {},
      make(
        "details",
        { className: "fold" },
        make(
          "summary",
          {},
          make("code", {}, name),
          " ",
          make("span", { className: "about" }, about),
          " ",
          state,
        ),
        make("p", { className: "label" }, "Arguments"),
        make("pre", { tabIndex: 0 }, JSON.stringify(args ?? {}, null, 2)),
        resultPart,
      ),
    );
    const parts = { root, state, result, resultPart };
    this.#shown.set(id, parts);
    this.root.append(root);
    return parts;
  }
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
