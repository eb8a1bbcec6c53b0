// The conversation as data: history, events and own messages in, the list to show out. No DOM.
//
// A state is never changed; each function returns the next one. It holds
//   key       the session's canonical key, "" before the first connection
//   items     what is in the transcript, or ended before our eyes: {kind: "person" | "answer", ...}
//   session   the id of its transcript; a reset begins another
//   messages  the part of the transcript that is here, as it came, without gaps
//   runs      runs that are accepted and not ended: {runId, text, thinking, tools, begun, guests,
//             asks, aside}; `asks` is what a person wrote while no transcript has it, `guests` are
//             {runId, asks} of messages that entered it, and one that is `aside` answers a command
//             while another is at work
//   asides    those commands with their answers, which no transcript has: {after, items}, where
//             `after` is the run that was at work
//   joins     runs whose message another run answers, as the gateway reported
//   notes     what a person is to know of how an answer came about, by its run
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
    asides: [],
    joins: [],
    notes: {},
    outgoing,
    more: false,
    wants: false,
  };
}

/** The session's canonical key, so that events before the first history are handled. */
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

/** Own message withdrawn, or known to be in the transcript. */
export function drop(state, key) {
  return { ...state, outgoing: state.outgoing.filter((message) => message.key !== key) };
}

/** The gateway accepted a message: its run exists, at the end of the line. */
export function accepted(state, key) {
  const message = state.outgoing.find((own) => own.key === key);
  if (!message || message.state === "dropped") return state; // its run has ended already
  const next = mark(state, key, "accepted");
  if (next.runs.some((run) => answers(run, key))) return next;
  return { ...next, runs: [...next.runs, { ...newRun(key), begun: next.runs.length === 0 }] };
}

/** Return the run that is at work, if one is. */
export function working(state) {
  return state.runs.find((run) => run.begun && !run.aside);
}

/** What `chat.history` returned of the newest messages; older ones that are here stay. */
export function remember(state, payload) {
  const session = payload.sessionId ?? null;
  const messages = following(session === state.session ? state.messages : [], payload.messages ?? []);
  const items = fold(messages);
  const runs = (payload.activeRuns ?? []).map(({ runId, text = "", queued, said = [] }) => {
    const shown = state.runs.find((run) => run.runId === runId) ?? newRun(runId);
    const kept = items.find((item) => item.id === `a:${runId}`);
    const tools = kept ? mergeTools(kept.tools, shown.tools) : shown.tools;
    const thinking = shown.thinking || kept?.thinking || "";
    const words = new Map(said.map((one) => [one.runId, one.text]));
    const asks = queued ?? words.get(runId) ?? "";
    words.delete(runId);
    for (const guest of shown.guests) words.set(guest.runId, words.get(guest.runId) ?? "");
    const guests = Array.from(words, ([id, told]) => ({ runId: id, asks: told }));
    return { ...shown, text, thinking, tools, begun: queued === undefined, asks, guests };
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
    asides: [null, session].includes(state.session) ? state.asides : [],
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
  // An answer that ended on this page and is in no history yet stays at the end.
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
  const { runId, sessionId, stream, data = {} } = payload;
  if (stream === "lifecycle" && data.joined) {
    const next = { ...state, joins: [...state.joins, runId] };
    return data.phase === "start" ? join(next, runId, data.joined) : next;
  }
  if (stream === "lifecycle" && data.phase === "start") {
    const isOther = Boolean(state.session && sessionId && sessionId !== state.session);
    const next = lead(state, runId);
    return isOther ? { ...next, wants: true } : next; // another session began, and may say so
  }
  if (stream === "lifecycle" && data.notices) {
    return { ...state, notes: { ...state.notes, [runId]: data.notices } };
  }
  if (stream === "tool") return useTool(lead(state, runId), runId, data, payload.ts);
  if (stream === "thinking") return think(lead(state, runId), runId, data);
  if (stream === "compaction" && data.completed) return summarise(lead(state, runId), runId);
  return state;
}

/**
 * The list to show, oldest first. Every item has a stable `id`. A person's item has `state`
 * (kept, waiting, sending, accepted, queued, failed), an answer's (writing, done, stopped, failed),
 * `tools`, `notices`, and `retry` with the person's item to ask again where that makes sense.
 */
export function view(state) {
  const run = working(state);
  const written = new Set(state.items.map((item) => item.key));
  const lines = new Set(state.runs.filter(({ begun }) => !begun).map(({ runId }) => runId));
  const own = state.outgoing
    .filter((message) => !written.has(message.key))
    .map((message) => ({
      ...ownItem(message),
      state: lines.has(message.key) ? "queued" : message.state,
      problem: message.problem,
    }));
  const others = state.runs
    .filter(({ runId, begun, asks }) => !begun && asks && !knows(state, runId))
    .map(({ runId, asks }) => ({ ...person(runId, asks, null), state: "queued" }));
  const items = state.items.filter(saysSomething).map((item) =>
    item.kind === "answer" && state.notes[item.key]
      ? { ...item, notices: state.notes[item.key] }
      : item,
  );
  if (!run) return withAsides([...withRetry(items), ...own, ...others], state.asides);
  const answer = { ...newAnswer(run.runId), ...pick(run), state: "writing" };
  const asked = ({ key }) => answers(run, key);
  const all = [
    // What the transcript already has of this run's answer is in the growing text too.
    ...items.filter((item) => item.id !== answer.id),
    ...own.filter(asked),
    ...toldOf(state, run),
    answer,
    ...own.filter((item) => !asked(item)),
    ...others,
  ];
  return withAsides(all, state.asides);
}

function newRun(runId) {
  return { runId, text: "", thinking: "", tools: [], begun: false, guests: [], asks: "", aside: false };
}

/** Not so an answer that was silent on purpose. */
function saysSomething({ kind, state, text, thinking, tools, images }) {
  return kind !== "answer" || state !== "done" || text || thinking || tools.length || images.length;
}

/** Put commands that were answered beside a run behind its answer. */
function withAsides(items, asides) {
  const all = [...items];
  for (const { after, items: told } of asides) {
    const place = all.findLastIndex(({ key, aside }) => key === after || aside === after);
    all.splice(place + 1 || all.length, 0, ...told.map((item) => ({ ...item, aside: after })));
  }
  return all;
}

/** Whether a message is the run's own, or has entered it. */
function answers(run, key) {
  return run.runId === key || run.guests.some(({ runId }) => runId === key);
}

/** What others asked that the run answers, until the transcript shows it. */
function toldOf(state, { runId, asks, guests }) {
  return [...guests, { runId, asks }]
    .filter((one) => one.asks && !knows(state, one.runId))
    .map((one) => person(one.runId, one.asks, null));
}

function ownItem({ key, text, at, images }) {
  return person(key, text, at, images);
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
  if ((first?.runId === runId && first.begun) || hasAnswer(state, runId)) return state;
  const run = state.runs.find((other) => other.runId === runId) ?? newRun(runId);
  const rest = state.runs.filter((other) => other.runId !== runId);
  const isCommand = state.outgoing.some(({ key, text }) => key === runId && text.startsWith("/"));
  if (isCommand && rest.some(({ begun }) => begun)) {
    return { ...state, runs: [...rest, { ...run, begun: true, aside: true }] };
  }
  const wants = state.wants || !knows(state, runId);
  return { ...state, runs: [{ ...run, begun: true }, ...rest], wants };
}

/** A message entered another run, which answers it. */
function join(state, runId, host) {
  const asks = state.runs.find((run) => run.runId === runId)?.asks ?? "";
  const led = lead({ ...state, runs: state.runs.filter((run) => run.runId !== runId) }, host);
  const next = change(led, host, (run) => ({ ...run, guests: [...run.guests, { runId, asks }] }));
  return knows(next, runId) ? next : { ...next, wants: true };
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
  // The start of a run is sent before its message is in the transcript, its text after.
  return first && !knows(next, runId) ? { ...next, wants: true } : next;
}

function think(state, runId, { text, delta = "" }) {
  return change(state, runId, (run) => ({ ...run, thinking: text ?? run.thinking + delta }));
}

function summarise(state, runId) {
  return change(state, runId, (run) => ({ ...run, summarised: true }));
}

function useTool(state, runId, data, at) {
  const { toolCallId: id, name, args, phase, isError = false, result, partialResult } = data;
  return change(state, runId, (run) => {
    const known = run.tools.find((tool) => tool.id === id);
    const tool = known ?? { id, name, args, state: "working", result: "", startedAt: at };
    const tools = known ? run.tools : [...run.tools, tool];
    if (phase === "start" || (phase === "update" && tool.state !== "working")) return { ...run, tools };
    const shown = (phase === "update" ? partialResult : result) ?? {};
    const became = phase === "update" ? "working" : isError ? "failed" : "done";
    const changed = { ...tool, state: became, result: textOf(shown), details: shown.details };
    return { ...run, tools: tools.map((other) => (other.id === id ? changed : other)) };
  });
}

/** A run ended: its message and its answer join the items. */
function settle(state, { runId, state: how, message, errorMessage, stopReason }) {
  const joined = state.joins.includes(runId);
  const run = state.runs.find((other) => other.runId === runId);
  const isKnown = Boolean(run) || state.outgoing.some(({ key }) => key === runId);
  if (!isKnown && (joined || hasAnswer(state, runId))) return state;
  const runs = state.runs.filter((other) => other !== run);
  // A message that another run answered is in the transcript; a withdrawn one is not.
  if (joined || (how === "aborted" && run && !run.begun)) {
    return { ...drop(state, runId), runs, wants: true };
  }
  if (how === "error" && !run?.begun && isKnown) {
    return { ...mark(state, runId, "dropped", errorMessage), runs }; // it never came to its turn
  }
  const done = run ?? newRun(runId);
  const items = state.items.filter((item) => item.id !== `a:${runId}`);
  const asked = state.outgoing.filter(({ key }) => answers(done, key));
  const written = new Set(items.map((item) => item.key));
  const answer = {
    ...newAnswer(runId),
    ...pick(done),
    text: message ? textOf(message) : done.text,
    at: message?.timestamp ?? null,
    state: { final: "done", aborted: "stopped", error: "failed" }[how],
    problem: errorMessage ?? cutOff(stopReason),
  };
  const outgoing = state.outgoing.filter((own) => !asked.includes(own));
  if (done.aside) {
    const after = working(state)?.runId;
    const asides = [...state.asides, { after, items: [...asked.map(ownItem), answer] }];
    return { ...state, runs, outgoing, asides };
  }
  items.push(...asked.filter(({ key }) => !written.has(key)).map(ownItem));
  items.push(...toldOf(state, done), answer);
  const wants = state.wants || !items.some((item) => item.kind === "person" && item.key === runId);
  return { ...state, items, runs, outgoing, wants };
}

/** Only the last answer, when it failed, can be asked for again. */
function withRetry(items) {
  const last = items.at(-1);
  if (last?.kind !== "answer" || last.state !== "failed") return items;
  const asked = items.findLast((item) => item.kind === "person");
  return asked && !asked.outcome ? [...items.slice(0, -1), { ...last, retry: asked }] : items;
}

/** Return the texts of the answers in what `chat.history` returned. */
export function answersOf(payload) {
  return fold(payload.messages ?? [])
    .filter((item) => item.kind === "answer")
    .map((item) => item.text);
}
