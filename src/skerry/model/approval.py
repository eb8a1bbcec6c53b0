"""Approvals of tool calls, as they are stored and shown."""

from enum import StrEnum
from typing import Final

from skerry.model.errors import RequestError

EXPIRES_MS: Final = 120_000
"""Milliseconds that a person has for an answer."""


class ApprovalState(StrEnum):
    """State of an approval; it only changes to a later one in this list."""

    PENDING = "pending"
    """No person has answered."""
    ALLOWED = "allowed"
    """A person allowed the call; it has not begun."""
    DENIED = "denied"
    EXPIRED = "expired"
    """No person answered in time."""
    BEGUN = "begun"
    """The call is running. If this is found at a start, any part of its effect may have
    happened."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The call had begun when the gateway stopped; it is never repeated."""


class Verdict(StrEnum):
    """Answer of a person."""

    ONCE = "allow-once"
    ALWAYS = "allow-always"
    """Allows the call, and adds its patterns to the agent's allowlist."""
    DENY = "deny"


class ApprovalNotOpenError(RequestError):
    """An approval cannot be answered: it does not exist, or is not pending any more."""

    code = "approval.not_open"
    remedy = "`skerry approvals list` shows the pending approvals."

    def __init__(self, approval_id: str, state: ApprovalState | None) -> None:
        state_text = f"is {state}" if state else "does not exist"
        super().__init__(f"The approval {approval_id!r} {state_text}.")
        self.state = state


class NoPatternError(RequestError):
    """A call has no pattern that could be allowed permanently."""

    code = "approval.no_always"
    remedy = "Allow it once."

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"The call of the approval {approval_id!r} cannot be allowed always.")
