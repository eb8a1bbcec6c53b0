// Transcript entries to items that are shown. No DOM.

import { outcomeOf } from "./outcome.js";

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

/** Return what a person wrote, as an item; with `outcome` where the gateway tells how a call ended. */
export function person(key, text, at, images = []) {
  const item = { kind: "person", id: `p:${key}`, key, text, images, at, state: "kept", problem: "" };
  const outcome = outcomeOf(key, text);
  return outcome ? { ...item, outcome } : item;
}

/** Return an answer to the message with this key, still without content. */
export function newAnswer(key) {
  return {
    kind: "answer",
    id: `a:${key}`,
    key,
    text: "",
    thinking: "",
    tools: [],
    images: [],
    usage: null,
    at: null,
    state: "done",
    problem: "",
  };
}

/** Transcript entries to items: an answer is all that came between two messages of the person. */
export function fold(messages) {
  const items = [];
  let key = "";
  let mark = {}; // on the entries after a summary
  for (const message of messages) {
    if (message.__openclaw?.kind === "compaction") {
      mark = { summarised: true };
    } else if (message.role === "user") {
      const id = message.idempotencyKey ?? message.__openclaw?.id ?? `${items.length}`;
      key = id.replace(/:user$/, "");
      for (const one of saidWith(message, key)) items.push({ ...one, ...mark }), (mark = {});
    } else if (message.provider === "skerry" && message.model === "notice") {
      const id = `n:${message.__openclaw?.id ?? items.length}`;
      items.push({ ...extend(newAnswer(""), message), kind: "note", id });
    } else if (message.role === "assistant") {
      const before = items.at(-1)?.kind === "answer" ? items.pop() : newAnswer(key);
      items.push({ ...extend(before, message), ...mark });
      mark = {};
    } else if (message.role === "toolResult" && items.at(-1)?.kind === "answer") {
      items.push(closeTool(items.pop(), message));
    }
  }
  return withOutcomes(items);
}

/** Note in the calls that waited for approval how they ended. */
function withOutcomes(items) {
  const outcomes = new Map(items.flatMap(({ outcome }) => (outcome?.approval ? [[outcome.approval, outcome]] : [])));
  if (outcomes.size === 0) return items;
  return items.map((item) => {
    if (!item.tools?.some(({ details }) => outcomes.has(details?.approvalId))) return item;
    const tools = item.tools.map((tool) => {
      const outcome = outcomes.get(tool.details?.approvalId);
      return outcome && tool.details.status === "approval-pending" ? { ...tool, outcome } : tool;
    });
    return { ...item, tools };
  });
}

/** What a person wrote with a message; several, where they were collected to it. */
function saidWith(message, key) {
  const { said = [{ text: textOf(message) }] } = message.__openclaw ?? {};
  return said.map(({ runId, text }, place) => {
    const isLast = place === said.length - 1;
    const own = runId ?? (isLast ? key : `${key}:${place}`);
    return person(own, text, message.timestamp, isLast ? imagesOf(message) : []);
  });
}

function extend(answer, message) {
  const calls = blocks(message).filter((block) => block.type === "toolCall");
  const broken = { aborted: "stopped", error: "failed" }[message.stopReason] ?? "done";
  const state = message.errorMessage ? "failed" : broken; // interrupted: aborted, with a message
  return {
    ...answer,
    text: join(answer.text, textOf(message)),
    thinking: join(answer.thinking, thinkingOf(message)),
    images: [...answer.images, ...imagesOf(message)],
    tools: [
      ...answer.tools,
      ...calls.map(({ id, name, arguments: args }) => ({ id, name, args, state: "done", result: "" })),
    ],
    usage: add(answer.usage, message.usage),
    at: message.timestamp,
    state,
    problem: message.errorMessage ?? cutOff(message.stopReason),
  };
}

/** Return the note for an answer that reached the model's limit, or "". */
export function cutOff(stopReason) {
  return stopReason === "length"
    ? "The answer reached the model's output limit. Ask it to continue."
    : "";
}

function closeTool(answer, message) {
  const { toolCallId, isError } = message;
  const tools = answer.tools.map((tool) =>
    tool.id === toolCallId
      ? {
          ...tool,
          state: isError ? "failed" : "done",
          result: textOf(message),
          ...(message.__openclaw?.origin && { origin: message.__openclaw.origin }),
          ...(message.details && { details: message.details }),
        }
      : tool,
  );
  return { ...answer, tools, images: [...answer.images, ...imagesOf(message)] };
}

/** Sum of usages: tokens in (all that was read), out, and cost in dollars. */
export function add(sum, usage) {
  if (!usage) return sum;
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cost = 0 } = usage;
  const before = sum ?? { input: 0, output: 0, cost: 0 };
  return {
    input: before.input + input + cacheRead + cacheWrite,
    output: before.output + output,
    cost: before.cost + (cost?.total ?? cost ?? 0),
  };
}

/** Join texts as paragraphs; empty ones leave no gap. */
export function join(...texts) {
  return texts.filter(Boolean).join("\n\n");
}

/** Return the text of a message. */
export function textOf(message) {
  return blocks(message)
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("");
}

function thinkingOf(message) {
  const parts = blocks(message).filter((block) => block.type === "thinking");
  return join(...parts.map((block) => (block.redacted ? "" : block.thinking)));
}

function imagesOf(message) {
  return blocks(message)
    .filter((block) => block.type === "image" && block.data && IMAGE.test(block.mimeType))
    .map(({ data, mimeType }) => ({ mimeType, content: data, fileName: "" }));
}

function blocks({ content }) {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}
