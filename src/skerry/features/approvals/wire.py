"""Converts approvals to the form for clients. Text of a model is escaped."""

from typing import Any

from skerry.gateway.frames import Json
from skerry.gateway.method import Call
from skerry.model.approval import ApprovalState, Verdict
from skerry.model.escape import escaped
from skerry.store.approvals import StoredApproval

__all__ = ("answer", "decision", "escaped", "person", "request", "requested", "resolved")


def request(approval: StoredApproval) -> dict[str, Any]:
    """Returns the facts for a person's decision."""
    view, call = approval.subject, approval.stored.call if approval.stored else None
    return {
        "command": escaped(view.command),
        "commandArgv": [escaped(word) for word in view.argv] if view.argv else None,
        "cwd": escaped(view.cwd) or None,
        "host": view.host or None,
        "security": escaped(view.security) or None,
        "ask": escaped(view.ask) or None,
        "agentId": view.agent or None,
        "resolvedPath": escaped(view.resolved_path) or None,
        "sessionKey": view.session_key or None,
        "tool": view.tool,
        "toolCallId": call.call_id if call else None,
        "runId": call.run_id if call else None,
        "taint": sorted(call.taint) if call else [],
        "rule": view.rule,
        "reason": escaped(view.reason),
        "envKeys": [escaped(name) for name in view.env_keys],
        "allowAlways": bool(view.patterns),
        "patterns": [escaped(pattern) for pattern in view.patterns],
    }


def requested(approval: StoredApproval) -> dict[str, Json]:
    """Returns a pending approval in the form of the list and the event."""
    return {
        "id": approval.id,
        "request": request(approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    }


def decision(approval: StoredApproval) -> str | None:
    """Returns the answer, or None without one."""
    if approval.state in {ApprovalState.PENDING, ApprovalState.EXPIRED}:
        return None
    return str(approval.verdict or Verdict.DENY)


def resolved(approval: StoredApproval, now: int) -> dict[str, Json]:
    """Returns the payload of the event about an answered or expired approval."""
    return {
        "id": approval.id,
        "decision": decision(approval),
        "resolvedBy": approval.resolved_by or None,
        "ts": now,
    }


def answer(approval: StoredApproval) -> dict[str, Json]:
    """Returns the result of a request that waited for an answer."""
    return {
        "id": approval.id,
        "decision": decision(approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    }


def person(call: Call) -> str:
    """Returns a name of the answering person: the beginning of the device id."""
    return call.device_id[:12] if call.device_id else "operator"
