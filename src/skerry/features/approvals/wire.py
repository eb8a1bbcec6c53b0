"""Approvals as clients get them. Text of a model is escaped, so that it shows what it is."""

import unicodedata
from typing import Any, Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call
from skerry.model.approval import ApprovalState, Verdict
from skerry.store.approvals import StoredApproval

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
MOST_TEXT: Final = 65_536
"""Characters of a command that are shown."""


def escaped(text: str) -> str:
    """Returns the text on one line, with an escape for each character that is not seen as itself.

    Those are control and format characters, separators, and every space but U+0020.
    """
    return "".join(_escape(character) for character in text[:MOST_TEXT])


def _escape(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _HIDDEN:
        return character
    return _SHORT.get(character) or f"\\u{{{ord(character):x}}}"


def request(approval: StoredApproval) -> dict[str, Any]:
    """Returns the facts that a person reads before the answer."""
    view = approval.subject
    return {
        "command": escaped(view.command),
        "commandArgv": [escaped(word) for word in view.argv] if view.argv else None,
        "cwd": escaped(view.cwd) or None,
        "host": view.host or None,
        "security": None,
        "ask": None,
        "agentId": view.agent or None,
        "resolvedPath": None,
        "sessionKey": view.session_key or None,
        "tool": view.tool,
        "rule": view.rule,
        "reason": escaped(view.reason),
        "envKeys": [escaped(name) for name in view.env_keys],
        "allowAlways": bool(view.patterns),
        "patterns": [escaped(pattern) for pattern in view.patterns],
    }


def requested(approval: StoredApproval) -> dict[str, Json]:
    """Returns a pending approval, as the list and the event have it."""
    return {
        "id": approval.id,
        "request": request(approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    }


def decision(approval: StoredApproval) -> str | None:
    """Returns the answer; None where nobody has answered."""
    if approval.state in {ApprovalState.PENDING, ApprovalState.EXPIRED}:
        return None
    return str(approval.verdict or Verdict.DENY)


def resolved(approval: StoredApproval, now: int) -> dict[str, Json]:
    """Returns the payload of the event about an approval that is no longer pending."""
    return {
        "id": approval.id,
        "decision": decision(approval),
        "resolvedBy": approval.resolved_by or None,
        "ts": now,
    }


def answer(approval: StoredApproval) -> dict[str, Json]:
    """Returns the result of a request that waited for the answer."""
    return {
        "id": approval.id,
        "decision": decision(approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    }


def person(call: Call) -> str:
    """Returns a name for whoever answers over a connection: the beginning of the device's id."""
    return call.device_id[:12] if call.device_id else "operator"
