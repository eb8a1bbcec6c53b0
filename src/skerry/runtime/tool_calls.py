"""Runs one tool call after its gates, and searches earlier messages for a run."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from skerry.lanes.active_runs import ActiveRun
from skerry.model.errors import ToolError
from skerry.model.ids import RunId, SessionId
from skerry.model.message import ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.recall import SearchResults
from skerry.model.tool import ToolResult
from skerry.policy.decide import NO_LAYERS
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import CLOCK_NS, FileGate
from skerry.policy.tool_names import HOST_TOOLS
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.approval import Approval, Approvals, PendingCall
from skerry.ports.tool import (
    Assessment,
    Tool,
    ToolContext,
    assess,
    call_of,
    permission,
    source,
    speaks_itself,
)
from skerry.runtime.tool_results import result_message
from skerry.store import Store

logger = logging.getLogger(__name__)


CHANGED: Final = "approval-changed"
"""Rule that refuses an approved call whose bound content has changed."""
_CHANGED_REASON: Final = "the command, its directory, environment or a script is not as approved"
GATE_SECONDS: Final = 10.0
"""Time limit of a tool's gate for one call, in seconds."""


class CallGate(Struct, frozen=True):
    """The run's gate for tool calls, in addition to the gates of the tools."""

    run_id: RunId
    session_id: SessionId
    layers: ToolPolicy = NO_LAYERS
    """Layers of the configuration on the tools of the run."""
    approvals: Approvals | None = None
    """None if no person can be asked: a call that needs an approval is denied."""
    model: tuple[str, str] = ("", "")
    """Provider and id of the model that made the call."""


async def execute(
    call: ToolCall,
    tools: Mapping[str, Tool],
    context: ToolContext,
    at: int,
    gate: CallGate | None = None,
) -> ToolResultMessage:
    """Executes `call`, which has its final arguments; returns its result, also for an error.

    With a `gate` the policy decides first, then the gate of the tool; the strictest answer counts.
    """
    tool = tools.get(call.name)  # before the call, during which a tool may be removed
    result = await _run(call, tool, context, gate)
    if result.is_error and (tool is None or speaks_itself(tool)):
        result = replace(result, origin=Origin.LOCAL)
    return result_message(call, result, at)


async def _run(
    call: ToolCall, tool: Tool | None, context: ToolContext, gate: CallGate | None
) -> ToolResult:
    if tool is None:
        return ToolResult(f"Tool {call.name} not found", is_error=True)
    return await _explained(call.name, lambda: _decided(call, tool, context, gate))


async def outcome(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Returns the result of a call that is allowed; a failure is a result too."""
    return await _explained(tool.spec.name, lambda: _run_tool(tool, arguments, context))


async def _run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Runs a tool whose call is allowed; for a command, records the files that it changed.

    The origin of a command's result is the one that the tool names before it runs.
    """
    if tool.spec.name not in HOST_TOOLS:
        return await tool.run(arguments, context)
    origin, began, rules = await source(tool, arguments, context), time.time_ns(), _gate(context)
    try:
        result = await tool.run(arguments, context)
    finally:
        if rules is not None and rules.may_have_foreign_text(origin):  # also for an aborted command
            root = context.workspace.root
            record_changes = partial(rules.note_changes, root, began - CLOCK_NS, origin)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(record_changes)
    return replace(result, origin=origin)


def _gate(context: ToolContext) -> FileGate | None:
    rules = context.workspace.rules
    return rules if isinstance(rules, FileGate) else None


async def _explained(name: str, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Returns the result of `work`, or its failure as a text for the model."""
    try:
        return await work()
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        return ToolResult(f"Invalid arguments for {name}: {problems}", is_error=True)
    except ToolError as error:
        return ToolResult(str(error), is_error=True)
    except Exception:
        # A broken tool must not end the run: the model gets a result, the log has the details.
        logger.exception("tool %s failed", name)
        return ToolResult(f"Tool {name} failed unexpectedly.", is_error=True)


async def _decided(
    call: ToolCall, tool: Tool, context: ToolContext, gate: CallGate | None
) -> ToolResult:
    assessment = await assessed(tool, call.arguments, context, gate)
    if assessment.effect is ToolEffect.DENY:
        return refusal(call.name, assessment)
    if assessment.effect is ToolEffect.ASK:
        return await _approved(call, tool, context, assessment, gate)
    return await _run_tool(tool, call.arguments, context.approved(assessment))


async def assessed(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, gate: CallGate | None
) -> Assessment:
    """Returns the strictest answer of the policy and the tool's gate; a failed gate denies.

    Raises:
        ToolError: the arguments are wrong.
        ValidationError: the arguments do not match the tool's schema.
    """
    policy: Assessment | None = None
    try:
        with anyio.fail_after(GATE_SECONDS):
            if gate is not None:
                policy = await _by_policy(tool, arguments, context, gate)
                if policy is not None and policy.effect is ToolEffect.DENY:
                    return policy
            assessment = await assess(tool, arguments, context)
    except (ToolError, ValidationError):
        raise
    except Exception:
        # A failed gate denies the call; the log has the details.
        logger.exception("the gate of the tool %s failed", tool.spec.name)
        return Assessment(ToolEffect.DENY, "gate-failed", "its gate failed or took too long")
    if policy is None or assessment.effect is ToolEffect.DENY:
        return assessment
    # Only the tool's description is added: a guarded call offers no patterns to allow always.
    return replace(policy, subject=assessment.subject)


async def _by_policy(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, gate: CallGate
) -> Assessment | None:
    """Returns the answer of the policy to the call; None if it allows the call."""
    if context.actor.is_tainted:  # the file must be looked up, which blocks
        question = partial(call_of, tool, arguments, context, gate.layers)
        request = await anyio.to_thread.run_sync(question)
    else:
        request = call_of(tool, arguments, context, gate.layers)
    decision = permission(tool, context.caller, request)
    if decision.allowed:
        return None
    return Assessment(decision.effect, decision.rule, decision.reason)


def refusal(name: str, assessment: Assessment) -> ToolResult:
    """Returns the result of a denied call; it names the rule."""
    reason = f": {assessment.reason}" if assessment.reason else ""
    return ToolResult(
        f"Tool {name} was denied by the rule {assessment.rule}{reason}", is_error=True
    )


async def _approved(
    call: ToolCall,
    tool: Tool,
    context: ToolContext,
    assessment: Assessment,
    gate: CallGate | None,
) -> ToolResult:
    """Returns the result of a call that needs a person's approval."""
    if gate is None or gate.approvals is None or context.caller is None:
        reason = f"{assessment.reason}, and no person can be asked here".removeprefix(", and ")
        return refusal(call.name, replace(assessment, reason=reason))
    approvals = gate.approvals
    pending = PendingCall(
        call.name,
        call.id,
        call.arguments,
        assessment,
        context.caller,
        gate.run_id,
        gate.session_id,
        context.taint,
        gate.model,
    )
    answer = await approvals.ask(pending)
    if isinstance(answer, ToolResult):
        return answer
    return await run_approved(tool, context, gate, approvals, answer)


async def run_approved(
    tool: Tool, context: ToolContext, gate: CallGate, approvals: Approvals, approval: Approval
) -> ToolResult:
    """Makes a call that a person approved, once; returns its result.

    The gates decide again: a call that is denied by now, or whose bound content has changed, is
    refused.
    """
    call = approval.call
    present = await assessed(tool, call.arguments, context, gate)
    if present.effect is ToolEffect.DENY:
        await approvals.refuse(approval, present.rule)
        return refusal(call.tool, present)
    if binding(present) != binding(call.assessment) and present.effect is ToolEffect.ASK:
        await approvals.refuse(approval, CHANGED)
        return refusal(call.tool, replace(present, rule=CHANGED, reason=_CHANGED_REASON))
    if not await approvals.begin(approval):
        return ToolResult(f"Tool {call.tool} was not run: its approval was used.", is_error=True)
    allowed = replace(present, effect=ToolEffect.ASK)
    result = await outcome(tool, call.arguments, context.approved(allowed))
    await approvals.ended(approval, result)
    return result


def binding(assessment: Assessment) -> bytes:
    """Returns the digest that an approval of the assessed call is bound to."""
    return assessment.subject.binding if assessment.subject else b""


class SessionRecall(Struct, frozen=True):
    """Searches transcripts for one run. Implements `ports.tool.Recall`."""

    store: Store
    active: ActiveRun

    async def search(self, query: str, *, limit: int, other_conversations: bool) -> SearchResults:
        """Returns the entries with words of the query, without those of this run.

        Other conversations are searched only in runs of the owner.
        """
        # Imported here: it imports the modules of the memory's search.
        from skerry.store.transcript_search import TranscriptQuery, search  # noqa: PLC0415 - at first use

        active = self.active
        question = TranscriptQuery(
            active.request.key,
            query,
            limit=limit,
            owner_conversations=other_conversations and active.request.origin is Origin.OWNER,
            until=(active.session_id, active.entry) if active.entry else None,
        )
        return await search(self.store, question)
