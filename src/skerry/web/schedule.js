// The panel of what agents do by themselves: jobs of a schedule, their runs, and heartbeats.

import { clockTime, make, setText } from "./dom.js";
import { toast } from "./toast.js";

const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const RUNS = 20;
const KINDS = {
  every: { label: "Every", example: "30m, 6h or 1d" },
  cron: { label: "By a cron expression", example: "0 7 * * 1-5" },
  at: { label: "Once", example: "2027-01-31T09:00" },
};

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "setup panel", ariaLabel: "Schedule" });
  #told = make("p", { className: "help", role: "status" });
  #jobs = make("ul", { className: "questions" });
  #runs = make("ul", { className: "questions" });
  #beats = make("p", { className: "help" });
  #switch = make("button", { type: "button", className: "quiet" });
  #shown = ""; // what the lists show, so that a look that changes nothing keeps the focus
  #end = null;

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "primary" }, "Close");
    this.#switch.addEventListener("click", () => void this.#act("set-heartbeats", { enabled: this.#switch.dataset.to === "on" }));
    this.#dialog.append(
      make("h2", {}, "Schedule"),
      this.#told,
      this.#jobs,
      this.#form(),
      make("details", {}, make("summary", {}, "Last runs"), this.#runs),
      make("h3", {}, "Heartbeat"),
      this.#beats,
      make("div", { className: "row" }, this.#switch),
      make("form", { method: "dialog" }, make("div", { className: "row end" }, close)),
    );
    this.#dialog.addEventListener("close", () => this.#end?.forEach((end) => end()));
    document.body.append(this.#dialog);
  }

  /** Open it, with the jobs there are; it follows their events while it is open. */
  async open() {
    this.#dialog.showModal();
    const { gateway } = this.page;
    this.#end = ["cron", "heartbeat"].map((event) => gateway.on(event, () => void this.#look()));
    await this.#read((method, params) => gateway.request(method, params));
  }

  /** Look again, which nobody asked for: it keeps no administrator rights. */
  #look() {
    return this.#read((method, params) => this.page.gateway.quietly(method, params));
  }

  async #read(request) {
    try {
      const list = await request("cron.list", { includeDisabled: true, limit: 200 });
      const log = await request("cron.runs", { limit: RUNS });
      const beats = await request("heartbeat.status", {});
      if (!list || !log || !beats) return;
      this.#beat(beats);
      const found = JSON.stringify([list, log]);
      if (found === this.#shown) return;
      this.#shown = found;
      const names = new Map(list.jobs.map(({ id, name }) => [id, name]));
      this.#jobs.replaceChildren(...list.jobs.map((job) => this.#job(job)));
      const runs = log.entries.map((entry) => this.#run(entry, names.get(entry.jobId)));
      this.#runs.replaceChildren(...(runs.length ? runs : [make("li", { className: "help" }, "No job has run yet.")]));
      setText(this.#told, list.jobs.length ? "" : "No jobs yet. Add one below, or ask an agent that has the tool cron.");
    } catch (error) {
      setText(this.#told, error.message);
    }
  }

  #job(job) {
    const { id, name, enabled, state } = job;
    const isRunning = state.runningAtMs !== undefined;
    const word = isRunning ? "running" : enabled ? "on" : "off";
    const next = job.nextRunAtMs ? `, next ${clockTime(job.nextRunAtMs)}` : "";
    const last = job.lastRunAtMs ? `. Last run ${clockTime(job.lastRunAtMs)}: ${state.lastStatus ?? "unknown"}` : "";
    const root = make(
      "li",
      {},
      make("p", {}, make("strong", { dir: "auto" }, name), " ", make("span", { className: "state" }, word)),
      make("p", { className: "help" }, `${planOf(job.schedule)}${next}${last}. ${wayOf(job.delivery)}`),
    );
    const text = job.payload.message ?? job.payload.text;
    root.append(make("p", { className: "help clamped", dir: "auto", title: text }, text));
    if (state.lastError) root.append(make("p", { className: "help bad", dir: "auto" }, state.lastError));
    root.append(
      make(
        "div",
        { className: "row" },
        this.#button("Run now", name, "cron.run", { id }, isRunning),
        this.#button(enabled ? "Switch off" : "Switch on", name, "cron.update", { id, patch: { enabled: !enabled } }),
        this.#remove(id, name),
      ),
    );
    return root;
  }

  /** Return the button that removes a job; it asks by a second press. */
  #remove(id, name) {
    const button = make("button", { type: "button", className: "quiet", ariaLabel: `Remove: ${name}` }, "Remove");
    button.addEventListener("click", () => {
      if (button.dataset.sure) return void this.#act("cron.remove", { id }, button);
      button.dataset.sure = "yes";
      button.ariaLabel = `Remove for good: ${name}`;
      setText(button, "");
      setText(button, "Remove for good?");
    });
    return button;
  }

  #run({ status, error, summary, runAtMs, ts }, name) {
    const head = `${clockTime(runAtMs ?? ts)} ${name ?? "a removed job"}: ${status ?? "unknown"}`;
    const about = make("p", { className: "help", dir: "auto" }, error ?? summary ?? "");
    return make("li", {}, make("p", { dir: "auto" }, head), about);
  }

  #beat({ enabled, agents, reasons }) {
    const lines = agents.map(({ agentId, everyMs, stopped, last }) => {
      const why = last ? `, last ${clockTime(last.ts)}: ${last.status}${last.reason ? ` (${reasons[last.reason] ?? last.reason})` : ""}` : "";
      return `${agentId} checks HEARTBEAT.md every ${spanOf(everyMs)}${stopped ? ", stopped after failures" : ""}${why}.`;
    });
    setText(this.#beats, enabled ? lines.join(" ") || "No agent has heartbeats." : "Heartbeats are switched off.");
    const to = enabled && !agents.some(({ stopped }) => stopped) ? "off" : "on";
    this.#switch.dataset.to = to;
    setText(this.#switch, to === "off" ? "Switch heartbeats off" : "Switch heartbeats on");
  }

  #form() {
    const name = make("input", { name: "name", required: true, maxLength: 200, placeholder: "Morning" });
    const kind = make("select", { name: "kind" });
    kind.append(...Object.entries(KINDS).map(([value, { label }]) => make("option", { value }, label)));
    const plan = make("input", { name: "plan", required: true, placeholder: KINDS.every.example });
    const text = make("textarea", { name: "text", required: true, rows: 2, dir: "auto", placeholder: "Wish me a good morning." });
    const told = make("p", { className: "help", role: "status" });
    kind.addEventListener("change", () => (plan.placeholder = KINDS[kind.value].example));
    const form = make(
      "form",
      { className: "stack" },
      make("label", {}, "Name", name),
      make("label", {}, "When", kind),
      make("label", {}, "Time", plan),
      make("label", {}, "Message to the agent", text),
      make("div", { className: "row end" }, make("button", { className: "quiet" }, "Add this job")),
      told,
    );
    const details = make("details", {}, make("summary", {}, "Add a job"), form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const schedule = scheduleOf(kind.value, plan.value.trim());
        const payload = { kind: "agentTurn", message: text.value };
        await this.page.gateway.request("cron.add", { name: name.value, schedule, payload });
        form.reset();
        details.open = false;
        setText(told, "");
      } catch (error) {
        setText(told, error.message);
      }
      await this.#look();
    });
    return details;
  }

  #button(text, what, method, params, disabled = false) {
    const button = make("button", { type: "button", className: "quiet", ariaLabel: `${text}: ${what}`, disabled }, text);
    button.addEventListener("click", () => void this.#act(method, params, button));
    return button;
  }

  async #act(method, params, button) {
    if (button) button.disabled = true;
    try {
      await this.page.gateway.request(method, params);
    } catch (error) {
      toast(error.message);
    }
    if (button) button.disabled = false;
    await this.#look();
  }
}

/** Return the schedule that a person entered; raises an error that names what is wrong. */
function scheduleOf(kind, text) {
  if (kind === "cron") {
    return { kind, expr: text, tz: Intl.DateTimeFormat().resolvedOptions().timeZone };
  }
  if (kind === "every") {
    const [, number, unit] = /^(\d{1,6})\s*([mhd])$/.exec(text.toLowerCase()) ?? [];
    if (!number) throw new Error(`${text} is not an interval. Write ${KINDS.every.example}.`);
    return { kind, everyMs: Number(number) * UNITS[unit] };
  }
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) throw new Error(`${text} is not a time. Write ${KINDS.at.example}.`);
  return { kind, at: at.toISOString() };
}

/** Return in words where the reply of a job goes. */
function wayOf(delivery) {
  if (!delivery || delivery.mode === "none") return "The reply is in the last runs.";
  if (delivery.mode === "webhook") return `The reply is posted to ${delivery.to}.`;
  return delivery.to ? `The reply goes to ${delivery.channel}:${delivery.to}.` : "The reply goes to your last chat.";
}

/** Return a schedule in words. */
function planOf({ kind, everyMs, expr, tz, at }) {
  if (kind === "every") return `Every ${spanOf(everyMs)}`;
  if (kind === "at") return `Once, ${clockTime(new Date(at).getTime())}`;
  return `Cron ${expr}${tz ? ` in ${tz}` : ""}`;
}

/** Return an interval in its largest whole unit. */
function spanOf(ms) {
  const unit = ["d", "h", "m"].find((name) => ms % UNITS[name] === 0);
  return unit ? `${ms / UNITS[unit]} ${unit}` : `${ms / 1000} s`;
}
