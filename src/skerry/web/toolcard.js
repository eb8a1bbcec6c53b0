// The card of a tool call: what it does and where, its output while it runs, how it ended, what it changed.

import { make, setText } from "./dom.js";
import { commandBox, Question } from "./asking.js";
import { diffBox } from "./diff.js";
import { line, output } from "./visible.js";

const STATES = { working: "…", failed: "(failed)", done: "", unknown: "" };
const STATUSES = { "approval-pending": "waits for approval", denied: "denied", killed: "stopped" };
const LATE = { done: "ran later", failed: "failed later", unknown: "outcome unknown", denied: "denied", expired: "expired" };
const COMMANDS = ["exec", "process", "bash"]; // tools whose argument is a command, or its session
const NEAR_END = 24; // pixels from the bottom at which the reader still follows the output

/** The card. `actions` has `decide(id, decision)`, `canUndo()` and `undo(run, files)`. */
export class ToolCard {
  #summary = make("summary");
  #state = make("span", { className: "tool-state" });
  #host = make("span", { className: "host", hidden: true });
  #details = make("details", { className: "fold" });
  #output = make("pre", { tabIndex: 0, dir: "auto" });
  #outputPart = make("div", { hidden: true });
  #source = make("p", { className: "source", hidden: true });
  #diff = make("div", { className: "change", hidden: true });
  #question = null;
  #decided = make("p", { className: "decided", hidden: true });
  #seen = null; // the text that the output shows
  #seenDiff = "";
  #isChosen = false; // whether a person has folded or unfolded it
  #follows = true;
  #tool = null;
  #run = ""; // id of the run that made the call
  #actions;

  constructor({ name, args }, actions) {
    this.#actions = actions;
    this.root = make("li", {}, this.#details, this.#decided);
    const command = COMMANDS.includes(name) && typeof args?.command === "string" ? args.command : "";
    const about = command || Object.values(args ?? {}).find((value) => typeof value === "string") || "";
    this.#summary.append(
      make("code", {}, name),
      " ",
      make("span", { className: command ? "about mono" : "about" }, line(about.slice(0, 400))),
      " ",
      this.#host,
      " ",
      this.#state,
    );
    this.#summary.addEventListener("click", () => (this.#isChosen = true));
    const label = make("p", { className: "label" }, command ? "Output" : "Result");
    this.#outputPart.append(label, this.#source, this.#output);
    this.#details.append(this.#summary, ...given(command, args), this.#diff, this.#outputPart);
    this.#details.addEventListener("toggle", () => this.#toEnd());
    this.#output.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.#output;
      this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_END;
    });
  }

  /** Show the call of `run` as it is now, with the `approval` that it waits for, or the one `decided`. */
  show(tool, approval, decided, run) {
    this.#run = run;
    if (tool !== this.#tool) this.#become(tool);
    if (approval?.id !== this.#question?.approval.id) this.#ask(approval);
    this.root.dataset.asks = approval ? "yes" : "";
    const late = tool.outcome ? `${tool.outcome.words}. The outcome is a message below.` : "";
    this.#decided.hidden = !decided && !late;
    setText(this.#decided, late || (decided ?? ""));
    this.tick(Date.now());
  }

  /** Show what changes with the time alone. */
  tick(now) {
    this.#question?.tick(now);
    if (this.#tool) setText(this.#state, stateOf(this.#tool, Boolean(this.#question), now));
  }

  #become(tool) {
    this.#tool = tool;
    const { state, result, details = {} } = tool;
    this.root.dataset.state = state;
    this.root.dataset.code = details.exitCode ? "bad" : "";
    const host = typeof details.host === "string" ? details.host : (tool.args?.host ?? "");
    this.#host.hidden = !host;
    setText(this.#host, line(String(host)));
    this.#outputPart.hidden = !result;
    this.#show(result ?? "");
    this.#tellSource(tool.origin, details);
    this.#showDiff(details);
    if (state === "working" && result && !this.#isChosen) this.#details.open = true;
  }

  #show(text) {
    if (text === this.#seen) return;
    this.#seen = text;
    this.#output.replaceChildren(...output(text));
    this.#toEnd();
  }

  #toEnd() {
    if (this.#follows && this.#tool?.state === "working") this.#output.scrollTop = this.#output.scrollHeight;
  }

  #tellSource(origin, { source, guard, externalContent }) {
    const from = origin ?? (externalContent?.untrusted ? "web" : undefined);
    const words = [sourceOf(from, source), guard?.flagged && suspicion(guard.matches)].filter(Boolean).join(" ");
    this.#source.hidden = !words;
    setText(this.#source, words);
    this.root.dataset.source = words ? (from ?? "web") : "";
    this.root.dataset.guard = guard?.flagged ? "flagged" : "";
  }

  #showDiff({ diff = "", files = [] }) {
    if (diff === this.#seenDiff) return;
    this.#seenDiff = diff;
    this.#diff.hidden = !diff;
    const nodes = diff ? [diffBox(diff)] : [];
    if (diff && files.length > 0 && this.#actions.canUndo?.()) {
      const problem = make("span", { className: "problem", role: "alert" });
      const button = make("button", { type: "button", className: "quiet" }, "Undo");
      button.title = "Restore these files as they were before this answer";
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const refused = await this.#actions.undo(this.#run, files);
          setText(button, refused ? "Not undone" : "Undone");
          setText(problem, refused);
        } catch (error) {
          button.disabled = false;
          setText(problem, error.message);
        }
      });
      nodes.push(make("div", { className: "row" }, button, problem));
    }
    this.#diff.replaceChildren(...nodes);
  }

  #ask(approval) {
    const hadFocus = this.#question?.root.contains(document.activeElement);
    this.#question?.root.remove();
    this.#question = null;
    if (approval) {
      // The whole command is in the question: what is folded away must not be what is decided on.
      this.#question = new Question(approval, this.#actions.decide, true);
      this.root.append(this.#question.root);
    } else if (hadFocus) {
      this.#summary.focus();
    }
  }
}

/** Return what a call was given: a command as it is, other arguments as JSON. */
function given(command, args) {
  if (!command) {
    const text = JSON.stringify(args ?? {}, null, 2);
    return [make("p", { className: "label" }, "Arguments"), make("pre", { tabIndex: 0 }, text)];
  }
  const { command: _, ...rest } = args;
  const nodes = [make("p", { className: "label" }, "Command"), commandBox(command)];
  if (Object.keys(rest).length > 0) nodes.push(make("pre", { tabIndex: 0 }, JSON.stringify(rest, null, 2)));
  return nodes;
}

function stateOf({ state, startedAt, details = {}, outcome }, asks, now) {
  if (outcome) return LATE[outcome.how];
  const { status, exitCode, signal, durationMs, guard } = details;
  if (asks) return "waits for you";
  const took = Number.isFinite(durationMs) ? seconds(durationMs) : "";
  if (state === "working") {
    const since = startedAt ? seconds(Math.max(0, now - startedAt), 0) : "";
    return since && since !== "0 s" ? `… ${since}` : STATES.working;
  }
  if (STATUSES[status]) return STATUSES[status];
  if (status === "running") return "in the background";
  const end = signal ? `signal ${signal}` : Number.isInteger(exitCode) ? `exit ${exitCode}` : STATES[state];
  return [end, took, guard?.flagged && "looks like instructions"].filter(Boolean).join(" · ");
}

function seconds(ms, digits = 1) {
  const all = ms / 1000;
  if (all < 60) return `${all.toFixed(all < 10 ? digits : 0)} s`;
  return `${Math.floor(all / 60)} min ${Math.floor(all % 60)} s`;
}

/** Return the warning about a result that looks like instructions, with the `matches` of the detector. */
export function suspicion(matches) {
  const names = Array.isArray(matches) ? matches.map((name) => line(String(name))).join(", ") : "";
  return `This text looks like instructions to the model${names ? ` (${names})` : ""}.`;
}

/** Return the origin of text from others in a sentence; "" for other text. */
function sourceOf(origin, source) {
  const from = typeof source === "string" && source ? ` ${line(source)}` : "";
  const words = {
    web: `From the web${from}: the model is told to follow no instructions in it.`,
    known: `Text from others${from}: the model is told to follow no instructions in it.`,
    stranger: `Text from strangers${from}: the model is told to follow no instructions in it.`,
    plugin: `From a plugin${from}: the model is told to follow no instructions in it.`,
    memory: "",
  };
  return words[origin] ?? (from ? `From${from}: the model is told to follow no instructions in it.` : "");
}
