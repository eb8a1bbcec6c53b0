"""Methods for approvals: list the waiting calls, and answer them."""

import uuid
from typing import Annotated, Final

from pydantic import Field

from skerry.features.approvals import wire
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError
from skerry.model.approval import EXPIRES_MS, ApprovalNotOpenError, ApprovalState, Verdict
from skerry.runtime.approvals import ApprovalDesk
from skerry.store.approvals import ApprovalView, StoredApproval

MAX_MS: Final = 600_000
"""Maximum wait of a client's request, in milliseconds."""
_Text = Annotated[str, Field(max_length=65_536)]


class IdParams(Params):
    """Approval to act on: its id, or the unique beginning of an id."""

    id: Name


class ResolveParams(IdParams):
    """Parameters of `exec.approval.resolve`."""

    refused = {  # noqa: RUF012 - declared by the base class
        "reviewer": "A person answers in the chat that was asked, with /approve.",
        "grantExpiresInDays": "An allowed pattern does not expire; remove it from the allowlist.",
    }
    decision: Name


class RequestParams(Params):
    """Parameters of `exec.approval.request`: a command that the client itself executes."""

    ignored = {  # noqa: RUF012 - declared by the base class
        "systemRunPlan": "The client executes the command itself.",
        "scope": "The person reads the command.",
        "unavailableDecisions": "A client's command is allowed once or denied.",
        "commandSpans": "The person reads the whole command.",
        "sessionId": "The session key names the conversation.",
        "runId": "The session key names the conversation.",
        "toolCallId": "The session key names the conversation.",
        "turnSourceChannel": "Connected clients are asked.",
        "turnSourceTo": "Connected clients are asked.",
        "turnSourceAccountId": "Connected clients are asked.",
        "turnSourceThreadId": "Connected clients are asked.",
        "approvalReviewerDeviceIds": "Every client with the approvals scope may answer.",
        "requireDeliveryRoute": "Connected clients are asked.",
        "suppressDelivery": "Connected clients are asked.",
        "deliverToApprovalClientsOnly": "Connected clients are asked.",
    }
    id: Name | None = None
    command: _Text = ""
    command_argv: Annotated[list[_Text], Field(max_length=1024)] | None = None
    env: Annotated[dict[Name, _Text], Field(max_length=256)] | None = None
    cwd: _Text | None = None
    node_id: Name | None = None
    host: Name | None = None
    security: Name | None = None
    ask: Name | None = None
    warning_text: _Text | None = None
    agent_id: Name | None = None
    resolved_path: _Text | None = None
    session_key: Name | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=MAX_MS)] = EXPIRES_MS
    two_phase: bool | None = None


class WaitParams(IdParams):
    """Parameters of `exec.approval.waitDecision`."""

    timeout_ms: Annotated[int, Field(ge=0, le=MAX_MS)] | None = None


def _desk(call: Call) -> ApprovalDesk:
    desk = call.context.approvals
    if desk is None:
        raise RefusedError("this gateway runs no agents, so no call waits for approval")
    return desk


async def approval_list(call: Call, _params: NoParams) -> Json:
    """Returns the approvals that wait for a person, oldest first."""
    desk = _desk(call)
    pending = await desk.pending()
    return [
        wire.requested(approval) | {"reached": desk.reaches_somebody(approval)}
        for approval in pending
    ]


async def approval_get(call: Call, params: IdParams) -> Json:
    """Returns one pending approval."""
    approval = await _named(_desk(call), params.id)
    return wire.requested(approval)


async def approval_resolve(call: Call, params: ResolveParams) -> Json:
    """Answers a pending approval; an allowed call runs once."""
    try:
        verdict = Verdict(params.decision)
    except ValueError as error:
        values = ", ".join(Verdict)
        raise RefusedError(f"unknown decision; decisions: {values}") from error
    desk = _desk(call)
    approval = await _named(desk, params.id)
    await desk.resolve(approval.id, verdict, wire.person(call))
    return {"ok": True}


async def approval_request(call: Call, params: RequestParams) -> Json:
    """Asks about a command of the client, and returns the answer; null after the timeout."""
    desk, now = _desk(call), call.context.clock.now_ms()
    argv = tuple(params.command_argv or ())
    command = params.command or " ".join(argv)
    if not command:
        raise RefusedError("a command is required")
    key = call.session_key(params.session_key, params.agent_id)
    view = ApprovalView(
        tool="exec",
        command=command,
        host=params.host or ("node" if params.node_id else "gateway"),
        cwd=params.cwd or "",
        agent=key.agent,
        session_key=str(key) if params.session_key else "",
        rule="client-request",
        reason=params.warning_text or "",
        argv=argv or None,
        env_keys=tuple(sorted(params.env or ())),
        security=params.security or "",
        ask=params.ask or "",
        resolved_path=params.resolved_path or "",
    )
    approval = StoredApproval(
        params.id or str(uuid.uuid4()),
        ApprovalState.PENDING,
        "",
        None,
        view,
        now,
        now + params.timeout_ms,
    )
    await desk.request(approval)
    if params.two_phase:
        call.respond({"status": "accepted", **wire.answer(approval)})
    return wire.answer(await desk.decided(approval.id, params.timeout_ms / 1000))


async def approval_wait(call: Call, params: WaitParams) -> Json:
    """Waits for the answer to an approval; `decision` is null without an answer in time."""
    desk = _desk(call)
    approval = await desk.find(params.id)
    if approval is None:
        raise ApprovalNotOpenError(params.id, None)
    now = call.context.clock.now_ms()
    remaining = max(0, approval.expires_at - now)
    timeout = remaining if params.timeout_ms is None else min(remaining, params.timeout_ms)
    return wire.answer(await desk.decided(approval.id, timeout / 1000))


async def _named(desk: ApprovalDesk, name: str) -> StoredApproval:
    """Returns the pending approval with the id, or the only one whose id begins with the name.

    Raises:
        ApprovalNotOpenError: no approval matches, or several do.
    """
    pending = await desk.pending()
    matches = [approval for approval in pending if approval.id == name]
    matches = matches or [approval for approval in pending if approval.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    stored = await desk.find(name)
    raise ApprovalNotOpenError(name, stored.state if stored else None)


METHODS: Final = (
    Method("exec.approval.list", NoParams, approval_list),
    Method("exec.approval.get", IdParams, approval_get),
    Method("exec.approval.resolve", ResolveParams, approval_resolve),
    Method("exec.approval.request", RequestParams, approval_request, waits=True),
    Method("exec.approval.waitDecision", WaitParams, approval_wait, waits=True),
)
