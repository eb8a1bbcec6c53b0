// The calls of tools that wait for a person. No DOM.

const LATEST = "exec.approval.list";
const KEPT_MS = 15_000; // how long a decision is shown
const WORDS = { "allow-once": "Allowed once", "allow-always": "Always allowed", deny: "Denied" };

/**
 * What waits for a person's decision, the oldest first. `gateway` has `request(method, params)`,
 * `can(method)` and `changed()`. Each has
 *   id, command, host, cwd, sessionKey, agentId, tool, toolCallId
 *   why       which rule asks, and for what reason
 *   taint     origins of foreign text that the run has read, such as "web"
 *   patterns  what "always" would allow; empty where only this call can be allowed
 *   endsAt    when it expires, in milliseconds of this machine's clock
 */
export class Approvals {
  pending = [];
  decided = new Map(); // words on calls that were decided a moment ago, by the id of the call
  #gateway;

  constructor(gateway) {
    this.#gateway = gateway;
  }

  /** Whether this gateway has approvals, and this page may decide. */
  get isOffered() {
    return this.#gateway.can(LATEST) && this.#gateway.can("exec.approval.resolve");
  }

  /** Read what waits, after the connection is there. */
  async read() {
    if (!this.isOffered) return;
    try {
      const answer = await this.#gateway.request(LATEST, {});
      const rows = Array.isArray(answer) ? answer : (answer.pending ?? answer.approvals ?? []);
      const now = Date.now();
      this.#become(rows.map((row) => pendingOf(row, Math.min(now, row.createdAtMs ?? now))));
    } catch (error) {
      console.info(`${LATEST}: ${error.message}`);
    }
  }

  /** Take an event of the gateway. */
  event(name, payload) {
    if (name === "exec.approval.requested") {
      const others = this.pending.filter(({ id }) => id !== payload.id);
      this.#become([...others, pendingOf(payload, Date.now())]);
    }
    if (name === "exec.approval.resolved") this.#leave(payload);
  }

  /** Decide: allow-once, allow-always or deny. Raises what the gateway answers. */
  async decide(id, decision) {
    await this.#gateway.request("exec.approval.resolve", { id, decision });
    this.#leave({ id, decision });
  }

  /** Return the approval that a call of a tool waits for, or undefined. */
  of(toolCallId) {
    return toolCallId && this.pending.find((one) => one.toolCallId === toolCallId);
  }

  #leave({ id, decision, resolvedBy }) {
    const left = this.pending.find((one) => one.id === id);
    if (!left) return;
    if (left.toolCallId) {
      const who = resolvedBy && typeof resolvedBy === "string" ? ` by ${resolvedBy}` : "";
      this.decided.set(left.toolCallId, `${WORDS[decision] ?? "Expired"}${who}`);
      setTimeout(() => {
        this.decided.delete(left.toolCallId);
        this.#gateway.changed();
      }, KEPT_MS);
    }
    this.#become(this.pending.filter((one) => one !== left));
  }

  #become(pending) {
    this.pending = pending.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
    this.#gateway.changed();
  }
}

/** Return an approval as the page has it; `began` is when it was made by this machine's clock. */
function pendingOf(row, began) {
  const request = { ...row, ...row.request };
  const { command, commandArgv, toolName, tool = toolName, args } = request;
  const lasts = Math.max(0, (row.expiresAtMs ?? 0) - (row.createdAtMs ?? 0));
  const shown = command ?? commandArgv?.join(" ") ?? JSON.stringify(args ?? {});
  return {
    id: row.id,
    command: shown,
    tool: tool ?? "exec",
    host: request.host ?? "",
    cwd: request.cwd ?? "",
    agentId: request.agentId ?? "",
    sessionKey: request.sessionKey ?? "",
    toolCallId: request.toolCallId ?? request.callId ?? "",
    why: [request.rule, request.reason ?? request.warningText].filter(Boolean),
    taint: request.taint ?? [],
    patterns: request.patterns ?? [],
    createdAtMs: row.createdAtMs ?? 0,
    endsAt: began + lasts,
  };
}
