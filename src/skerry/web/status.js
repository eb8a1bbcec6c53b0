// The header and the notice above the message box: connection, model, what a person can do.

import { byId, clockTime, setText } from "./dom.js";
import { titleOf } from "./list.js";
import { costOf, count } from "./parts.js";
import { MAIN } from "./route.js";
import { add } from "./transcript.js";
import { line } from "./visible.js";

const CONNECTION = { connecting: "Connecting", online: "Online" };
const STORAGE = {
  full: "The gateway's disk is full: it accepts no new messages.",
  "read-only": "The gateway cannot write to its disk: it accepts no new messages.",
  busy: "Another program holds the gateway's database: it accepts no new messages.",
  corrupt: "The gateway's database is damaged: it accepts no new messages.",
  failing: "The gateway cannot store anything: it accepts no new messages.",
};
const toldOf = new Set(); // approvals of which a screen reader was told
const MODEL = { ready: "", failing: " (its last call failed)", starting: " (starting)", unavailable: "No model" };

/** Show the connection; `since` is when it was lost, in milliseconds. */
export function showConnection({ phase, since, retryAt }, stopping) {
  byId("connection").dataset.state = stopping ? "offline" : phase;
  const usual = CONNECTION[phase] ?? `Offline since ${clockTime(since)}`;
  setText(byId("connection-text"), stopping && phase === "online" ? "The gateway is stopping" : usual);
  byId("retry").hidden = phase !== "offline";
  showCountdown({ phase, retryAt });
}

/** Show how many calls wait for a person; tell a screen reader of each that is new. */
export function showApprovals({ isOffered, pending }) {
  byId("approvals").hidden = !isOffered;
  byId("waiting").hidden = pending.length === 0;
  setText(byId("waiting-count"), String(pending.length));
  const last = pending.at(-1);
  const isNew = last && !toldOf.has(last.id);
  for (const { id } of pending) toldOf.add(id);
  if (isNew) setText(byId("alert"), `${last.tool} needs your approval: ${line(last.command).slice(0, 200)}`);
  if (pending.length === 0) setText(byId("alert"), "");
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = pending.length > 0 ? `(${pending.length}) ${title}` : title;
}

/** Show in how many seconds the page tries again. */
export function showCountdown({ phase, retryAt }) {
  const seconds = Math.max(1, Math.ceil((retryAt - Date.now()) / 1000));
  setText(byId("countdown"), phase === "offline" && retryAt ? `tries again in ${seconds} s` : "");
}

/** Show why the page is not let in: it has to be approved, has no key, or needs another token. */
export function showGate(code, { details }, reason) {
  byId("pairing").hidden = code !== "PAIRING_REQUIRED";
  byId("keyless").hidden = code !== "DEVICE_IDENTITY_REQUIRED";
  byId("asking").hidden = !(byId("pairing").hidden && byId("keyless").hidden);
  setText(byId("tunnel"), `ssh -L ${location.port || 80}:127.0.0.1:${location.port || 80} ${location.hostname}`);
  const command = `skerry devices approve ${details.requestId ?? ""}`.trim();
  setText(byId("pairing-command"), command);
  setText(byId("gate-reason"), reason);
}

/** Show the conversation's agent, where it has a name or is not `main`, and where its transcripts lie. */
export function showAgent(hello, key, names) {
  const { stateDir, sessionDefaults } = hello?.snapshot ?? {};
  const usual = sessionDefaults?.defaultAgentId ?? "main";
  const [, agent = usual] = /^agent:([^:]+):/.exec(key) ?? [];
  setText(byId("agent"), names.get(agent) || (agent === "main" ? "" : agent));
  if (stateDir) setText(byId("transcript"), `${stateDir}/agents/${agent}/sessions`);
}

/** Show which conversation this is, also in the tab. */
export function showTitle(row, key) {
  const title = row ? titleOf(row) : key === MAIN ? "Main conversation" : "New conversation";
  setText(byId("title"), title);
  document.title = `${title} · Skerry`;
}

/** Show what the conversation has used so far: what the gateway counted, or what is here. */
export function showSpent(row, items, isPart) {
  const here = items.reduce((sum, item) => add(sum, item.usage), null);
  const counted = (row?.inputTokens ?? 0) + (row?.outputTokens ?? 0);
  const whole = here && !isPart ? costOf(here) : "";
  const text = whole || (counted ? `${count(counted)} tokens` : "");
  setText(byId("spent"), text && `This conversation: ${text}`);
}

/** Show which model answers; null hides it: this gateway does not say. */
export function showModel(status) {
  const button = byId("model");
  button.hidden = status === null;
  if (status === null) return;
  const { model, failure } = status;
  const state = failure && status.state === "ready" ? "failing" : status.state;
  button.dataset.state = state;
  const name = model?.name || model?.id || "";
  setText(byId("model-text"), state === "unavailable" ? MODEL[state] : `${name}${MODEL[state]}`);
  const about = failure ? `${failure.message} ${failure.remedy}` : model?.note;
  button.title = [model?.ref, about].filter(Boolean).join(": ");
}

/**
 * Show the most pressing thing a person should know: the gateway is away or stops, it cannot store
 * what it is told, it runs with an older configuration, the transcript cannot be read (`problem`), no model answers, or the model is
 * only the demonstration; or a local model server waits to be confirmed. Hidden if all is well.
 */
export function showNotice(gateway, problem) {
  const notice = byId("notice");
  const [text, remedy = "", label = "", offer = ""] = pressing(gateway, problem);
  notice.hidden = !text;
  setText(byId("notice-text"), text);
  setText(byId("notice-remedy"), remedy);
  const button = byId("notice-button");
  button.hidden = !label;
  button.dataset.offer = offer;
  setText(button, label);
}

function pressing({ phase: { phase }, stopping, health, model: status }, problem) {
  if (phase === "offline") {
    const kept = "What you write is kept, and sent when it is back.";
    const start = health?.startCommand ? ` To start it: ${health.startCommand}` : "";
    return [stopping ? "The gateway has stopped." : "The gateway does not answer.", kept + start];
  }
  if (stopping) return ["The gateway is stopping.", "What you write is kept, and sent when it is back."];
  const { state: disk = "ok", remedy: room = "" } = health?.storage ?? {};
  if (STORAGE[disk]) return [STORAGE[disk], room];
  if (problem) return [problem];
  const { state: file, message: broken = "", remedy: repair = "" } = health?.configuration ?? {};
  if (file === "last-good") {
    return [`The gateway runs with its last good configuration. ${broken}`, repair];
  }
  const { restart, restartPaths = [] } = health?.configuration ?? {};
  if (restart === "needed") {
    return [`The gateway needs a restart for ${restartPaths.join(", ")}.`];
  }
  if (!status || status.state === "starting") return [status?.message ?? ""];
  const { state, message, remedy, model, offers = [] } = status;
  const isDemonstration = model?.provider === "embedded" && !model.supportsTools;
  const offer = offers.find(({ before }) => before) ?? offers[0];
  if (offer && (offer.before || isDemonstration || state === "unavailable")) {
    const now = isDemonstration ? "The demonstration model answers until you confirm it." : "";
    return [offer.message, now, `Use ${offer.name}`, offer.id];
  }
  if (state === "unavailable") return [message, remedy, "Set up a model"];
  return isDemonstration ? [model.note, remedy, "Use a better model"] : [""];
}
