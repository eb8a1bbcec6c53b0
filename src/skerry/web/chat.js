// The conversation as data: history, events and own messages in, the list to show out. No DOM.
//
// A state is never changed; each function returns the next one. It holds
//   key       the session's canonical key, "" before the first connection
//   items     what is in the transcript, or ended before our eyes: {kind: "person" | "answer", ...}
//   session   the id of its transcript; a reset begins another
//   messages  the part of the transcript that is here, as it came, without gaps
//   runs      runs that are accepted and not ended, the working one first: {runId, text, thinking,
//             tools}
//   outgoing  own messages that no history has shown yet: {key, text, images, at, state, problem}
//   more      whether the transcript has older messages than `messages`
//   wants     whether a run is shown whose message is not known, so that history is needed
// A message and its run share one id: the idempotency key. The gateway answers and tells over one
// connection in the order in which things happened, so a history replaces all that came before it,
// and what comes after it is newer.

import { cutOff, fold, newAnswer, person, textOf } from "./transcript.js";

/** An empty conversation with the messages that an earlier page left unsent. */
export function begin(outgoing = []) {
  return {
    key: "",
    session: null,
    messages: [],
    items: [],
    runs: [],
    outgoing,
    more: false,
    wants: false,
  };
}

/** The session's canonical key, so that what the gateway tells before the first history is heard. */
export function name(state, key) {
  return state.key ? state : { ...state, key };
}

/** Own message written: it is shown at once, and sent by the caller. */
export function write(state, { key, text, images = [], at }) {
  const message = { key, text, images, at, state: "waiting", problem: "" };
  const outgoing = [...state.outgoing, message];
  return { ...state, outgoing };
}

/** Own message's fate changed: waiting, sending, accepted or failed (with the problem). */
export function mark(state, key, fate, problem = "") {
  const outgoing = state.outgoing.map((message) =>
    message.key === key ? { ...message, state: fate, problem } : message,
  );
  return { ...state, outgoing };
}

/** Own message taken back, or known to be in the transcript. */
export function drop(state, key) {
  return { ...state, outgoing: state.outgoing.filter((message) => message.key !== key) };
}

/** The gateway accepted a message: its run exists, at the end of the line. */
export function accepted(state, key) {
  const next = mark(state, key, "accepted");
  const known = next.runs.some((run) => run.runId === key) || hasAnswer(next, key);
  if (known) return next;
  return { ...next, runs: [...next.runs, newRun(key)] };
}

/** What `chat.history` returned of the newest messages; older ones that are here stay. */
export function remember(state, payload) {
  const session = payload.sessionId ?? null;
  const messages = following(session === state.session ? state.messages : [], payload.messages ?? []);
  const items = fold(messages);
  const runs = (payload.activeRuns ?? []).map(({ runId, text }) => {
    const shown = state.runs.find((run) => run.runId === runId) ?? newRun(runId);
    const kept = items.find((item) => item.id === `a:${runId}`);
    const tools = kept ? mergeTools(kept.tools, shown.tools) : shown.tools;
    return { ...shown, text: text || shown.text, thinking: shown.thinking || kept?.thinking || "", tools };
  });
  const written = new Set(items.map((item) => item.key));
  const outgoing = state.outgoing.filter((message) => !written.has(message.key));
  const older = messages.length > (payload.messages ?? []).length;
  return {
    ...state,
    key: payload.sessionKey ?? state.key,
    session,
    messages,
    items,
    runs,
    outgoing,
    more: older ? state.more : payload.hasMore === true,
    wants: false,
  };
}

/** What `chat.history` returned of the messages before those that are here. */
export function prepend(state, payload) {
  if ((payload.sessionId ?? null) !== state.session) return state;
  const first = placeOf(state.messages[0]);
  const older = (payload.messages ?? []).filter((message) => placeOf(message) < first);
  const messages = [...older, ...state.messages];
  // What ended before our eyes and no history has told of yet stays at the end.
  const known = new Set(fold(state.messages).map((item) => item.id));
  const ended = state.items.filter((item) => !known.has(item.id));
  return {
    ...state,
    messages,
    items: [...fold(messages), ...ended],
    more: older.length > 0 && payload.hasMore === true,
  };
}

/** A `chat` event: text that grows, or the end of a run. Other sessions' change nothing. */
export function hear(state, payload) {
  if (state.key !== payload.sessionKey) return state;
  if (payload.state === "delta") return grow(state, payload);
  if (["final", "aborted", "error"].includes(payload.state)) return settle(state, payload);
  return state;
}

/** An `agent` event: that a run started, what it thinks, and what its tools do. */
export function watch(state, payload) {
  if (state.key !== payload.sessionKey) return state;
  const { runId, stream, data = {} } = payload;
  if (stream === "lifecycle" && data.phase === "start") return lead(state, runId);
  if (stream === "tool") return useTool(lead(state, runId), runId, data);
  if (stream === "thinking") return think(lead(state, runId), runId, data);
  if (stream === "compaction" && data.completed) return summarise(lead(state, runId), runId);
  return state;
}

/**
 * The list to show, oldest first. Every item has a stable `id`. A person's item has `state`
 * (kept, waiting, sending, accepted, queued, failed), an answer's (writing, done, stopped, failed),
 * `tools`, and `retry` with the person's item to ask again where that makes sense.
 */
export function view(state) {
  const [working, ...queued] = state.runs;
  const written = new Set(state.items.map((item) => item.key));
  const lines = new Set(queued.map((run) => run.runId));
  const own = state.outgoing
    .filter((message) => !written.has(message.key))
    .map((message) => ({
      ...person(message.key, message.text, message.at, message.images),
      state: lines.has(message.key) ? "queued" : message.state,
      problem: message.problem,
    }));
  if (!working) return [...withRetry(state.items), ...own];
  const answer = { ...newAnswer(working.runId), ...pick(working), state: "writing" };
  return [
    // What the transcript already has of this run's answer is in the growing text too.
    ...state.items.filter((item) => item.id !== answer.id),
    ...own.filter((item) => item.key === working.runId),
    answer,
    ...own.filter((item) => item.key !== working.runId),
  ];
}

function newRun(runId) {
  return { runId, text: "", thinking: "", tools: [] };
}

function pick({ text, thinking, tools, summarised }) {
  return { text, thinking, tools, ...(summarised && { summarised }) };
}

/** Return the place of a message in its transcript; 0 where the gateway does not say. */
function placeOf(message) {
  return message?.__openclaw?.seq ?? 0;
}

/** Return the messages that are here, with what is newest; without the former where there is a gap. */
function following(here, newest) {
  const first = placeOf(newest[0]);
  const before = first ? here.filter((message) => placeOf(message) < first) : [];
  return placeOf(before.at(-1)) === first - 1 ? [...before, ...newest] : newest;
}

/** Tools of a run: what the transcript has, and what it has not yet. A page may come later than a tool. */
function mergeTools(kept, told) {
  const known = new Map(told.map((tool) => [tool.id, tool]));
  const first = kept.map((tool) => (tool.result ? tool : (known.get(tool.id) ?? tool)));
  const ids = new Set(kept.map((tool) => tool.id));
  return [...first, ...told.filter((tool) => !ids.has(tool.id))];
}

function hasAnswer(state, runId) {
  return state.items.some((item) => item.id === `a:${runId}`);
}

/** Whether the message that began the run is here. */
function knows(state, runId) {
  return [...state.items, ...state.outgoing].some((one) => one.key === runId);
}

/** Make the run the working one, creating it where this page did not know of it. */
function lead(state, runId) {
  const [first] = state.runs;
  if (first?.runId === runId || hasAnswer(state, runId)) return state;
  const run = state.runs.find((other) => other.runId === runId) ?? newRun(runId);
  const rest = state.runs.filter((other) => other.runId !== runId);
  const wants = state.wants || !knows(state, runId);
  return { ...state, runs: [run, ...rest], wants };
}

function change(state, runId, update) {
  const runs = state.runs.map((run) => (run.runId === runId ? update(run) : run));
  return { ...state, runs };
}

function grow(state, { runId, message, deltaText = "", replace = false }) {
  const led = lead(state, runId);
  const first = led.runs.some((run) => run.runId === runId && run.text === "");
  const next = change(led, runId, (run) => {
    if (message) return { ...run, text: textOf(message) };
    return { ...run, text: replace ? deltaText : run.text + deltaText };
  });
  // A run tells of its start before its message is in the transcript, of its text after.
  return first && !knows(next, runId) ? { ...next, wants: true } : next;
}

function think(state, runId, { text, delta = "" }) {
  return change(state, runId, (run) => ({ ...run, thinking: text ?? run.thinking + delta }));
}

function summarise(state, runId) {
  return change(state, runId, (run) => ({ ...run, summarised: true }));
}

function useTool(state, runId, { toolCallId: id, name, args, phase, isError = false, result }) {
  return change(state, runId, (run) => {
    const known = run.tools.find((tool) => tool.id === id);
    const tool = known ?? { id, name, args, state: "working", result: "" };
    const tools = known ? run.tools : [...run.tools, tool];
    if (phase !== "result") return { ...run, tools };
    const ended = { ...tool, state: isError ? "failed" : "done", result: textOf(result ?? {}) };
    return { ...run, tools: tools.map((other) => (other.id === id ? ended : other)) };
  });
}

/** A run ended: its message and its answer join the items. */
function settle(state, { runId, state: how, message, errorMessage, stopReason }) {
  if (hasAnswer(state, runId) && !state.runs.some((run) => run.runId === runId)) return state;
  const run = state.runs.find((other) => other.runId === runId) ?? newRun(runId);
  const own = state.outgoing.find((other) => other.key === runId);
  const items = state.items.filter((item) => item.id !== `a:${runId}`);
  const known = items.some((item) => item.key === runId);
  if (own && !known) items.push(person(own.key, own.text, own.at, own.images));
  const text = message ? textOf(message) : run.text;
  // A message that entered another run is answered there: where, the transcript says.
  const joined = how === "final" && !text && run.tools.length === 0;
  if (!joined) {
    items.push({
      ...newAnswer(runId),
      ...pick(run),
      text,
      at: message?.timestamp ?? null,
      state: { final: "done", aborted: "stopped", error: "failed" }[how],
      problem: errorMessage ?? cutOff(stopReason),
    });
  }
  return {
    ...drop(state, runId),
    items,
    runs: state.runs.filter((other) => other.runId !== runId),
    wants: state.wants || joined || !(own || known),
  };
}

/** Only the last answer, when it failed, can be asked for again. */
function withRetry(items) {
  const last = items.at(-1);
  if (last?.kind !== "answer" || last.state !== "failed") return items;
  const asked = items.findLast((item) => item.kind === "person");
  return asked ? [...items.slice(0, -1), { ...last, retry: asked }] : items;
}

/** Return the texts of the answers in what `chat.history` returned. */
export function answersOf(payload) {
  return fold(payload.messages ?? [])
    .filter((item) => item.kind === "answer")
    .map((item) => item.text);
}
