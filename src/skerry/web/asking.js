// The question whether a call may run, in its card and in the inbox: what, why, how long, and buttons.

import { make, setText } from "./dom.js";
import { exact, line } from "./visible.js";

const CHOICES = [
  ["allow-once", "Allow once", "primary"],
  ["allow-always", "Always allow", "quiet"],
  ["deny", "Deny", "quiet deny"],
];
const LONG = 240; // characters that every box shows without scrolling
const SETTLE_MS = 400; // a press that was meant for what was here before decides nothing

/**
 * The question. `decide(id, decision)` answers it and raises where that failed. With `isWhole` the
 * command is in it too.
 */
export class Question {
  #left = make("span", { className: "left" });
  #problem = make("p", { className: "problem", role: "alert", hidden: true });
  #buttons = new Map();
  #decide;
  #sending = false;

  constructor(approval, decide, isWhole = false) {
    this.approval = approval;
    this.#decide = decide;
    const { tool, command, host, cwd, why, taint, patterns } = approval;
    const label = `Approval of ${tool}: ${line(command).slice(0, 200)}`;
    this.root = make("div", { className: "question", role: "group", ariaLabel: label, tabIndex: -1 });
    const where = [host && `on ${host}`, cwd && `in ${line(cwd)}`].filter(Boolean).join(", ");
    const facts = make("span", {}, make("strong", {}, "Needs your approval"), ` ${where} `);
    this.root.append(make("p", { className: "place" }, facts, this.#left));
    if (isWhole) this.root.append(commandBox(command));
    if (command.length > LONG) {
      const length = `The command has ${command.length.toLocaleString("en")} characters: read it to its end.`;
      this.root.append(make("p", { className: "why foreign" }, length));
    }
    if (why.length > 0) this.root.append(make("p", { className: "why" }, ...exact(why.join(": "))));
    if (taint.length > 0) {
      const read = `This run has read text from others (${taint.join(", ")}).`;
      this.root.append(make("p", { className: "why foreign" }, read));
    }
    if (patterns.length > 0) {
      const text = make("p", { className: "why" }, "Always: ");
      for (const pattern of patterns) text.append(make("code", {}, ...exact(patternOf(pattern))), " ");
      this.root.append(text);
    }
    const row = make("div", { className: "row" });
    for (const [decision, words, className] of CHOICES) {
      if (decision === "allow-always" && patterns.length === 0) continue;
      const onclick = () => this.#answer(decision);
      const button = make("button", { type: "button", className, onclick }, words);
      this.#buttons.set(decision, button);
      row.append(button);
    }
    this.root.append(row, this.#problem);
    this.tick(Date.now());
    this.#enable(false);
    setTimeout(() => this.#enable(true), SETTLE_MS);
  }

  /** Show how long there is still to decide. */
  tick(now) {
    const seconds = Math.max(0, Math.ceil((this.approval.endsAt - now) / 1000));
    setText(this.#left, seconds > 0 ? `${clock(seconds)} left` : "expired");
    this.root.classList.toggle("short", seconds <= 20);
  }

  async #answer(decision) {
    if (this.#sending) return;
    this.#sending = true; // the buttons keep the focus meanwhile
    try {
      await this.#decide(this.approval.id, decision);
    } catch (error) {
      this.#problem.hidden = false;
      setText(this.#problem, error.message);
    } finally {
      this.#sending = false;
    }
  }

  #enable(can) {
    for (const button of this.#buttons.values()) button.disabled = !can;
  }
}

/** Return the box with a whole command, every character visible and in its order. */
export function commandBox(command) {
  return make("pre", { className: "command", tabIndex: 0, dir: "ltr", ariaLabel: "Command" }, ...exact(command));
}

function patternOf(pattern) {
  return typeof pattern === "string" ? pattern : (pattern.pattern ?? JSON.stringify(pattern));
}

function clock(seconds) {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
