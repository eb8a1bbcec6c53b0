// The header and the notice above the message box: connection, model, what a person can do.

import { byId, clockTime, setText } from "./dom.js";

const CONNECTION = { connecting: "Connecting", online: "Online" };
const MODEL = { ready: "", starting: " (starting)", unavailable: "No model" };

/** Show the connection; `since` is when it was lost, in milliseconds. */
export function showConnection({ phase, since }) {
  byId("connection").dataset.state = phase;
  const text = CONNECTION[phase] ?? `Offline since ${clockTime(since)}`;
  setText(byId("connection-text"), text);
  byId("retry").hidden = phase !== "offline";
}

/** Show the agent's name, where it has one of its own, and where its transcripts lie. */
export function showAgent(hello) {
  const { stateDir, sessionDefaults } = hello?.snapshot ?? {};
  const agent = sessionDefaults?.defaultAgentId ?? "main";
  setText(byId("agent"), agent === "main" ? "" : agent);
  if (stateDir) setText(byId("transcript"), `${stateDir}/agents/${agent}/sessions`);
}

/** Show which model answers; null hides it: this gateway does not say. */
export function showModel(status) {
  const button = byId("model");
  button.hidden = status === null;
  if (status === null) return;
  const { state, model } = status;
  button.dataset.state = state;
  const name = model?.name || model?.id || "";
  setText(byId("model-text"), state === "unavailable" ? MODEL[state] : `${name}${MODEL[state]}`);
  button.title = [model?.ref, model?.note].filter(Boolean).join(": ");
}

/**
 * Show the most pressing thing a person should know: the gateway is away, the transcript cannot be
 * read (`problem`), no model answers, or the model is only the demonstration. Hidden if all is well.
 */
export function showNotice(connection, status, problem) {
  const notice = byId("notice");
  const [text, remedy, label] = pressing(connection, status, problem);
  notice.hidden = !text;
  setText(byId("notice-text"), text);
  setText(byId("notice-remedy"), remedy);
  const button = byId("notice-button");
  button.hidden = !label;
  setText(button, label);
}

function pressing({ phase }, status, problem) {
  if (phase === "offline") {
    const kept = "What you write is kept, and sent when it is back. To start it: make start";
    return ["The gateway does not answer.", kept, ""];
  }
  if (problem) return [problem, "", ""];
  if (!status || status.state === "starting") return [status?.message ?? "", "", ""];
  const { state, message, remedy, model } = status;
  if (state === "unavailable") return [message, remedy, "Set up a model"];
  const isDemonstration = model.provider === "embedded" && !model.supportsTools;
  return isDemonstration ? [model.note, remedy, "Use a better model"] : ["", "", ""];
}
