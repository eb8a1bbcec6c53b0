"""Effects of a gate on a call: allow, ask a person, or deny (pure)."""

from enum import StrEnum


class ToolEffect(StrEnum):
    """Decision of a gate on one call."""

    ALLOW = "allow"
    ASK = "ask"
    """A person must approve the call."""
    DENY = "deny"


_ORDER = (ToolEffect.ALLOW, ToolEffect.ASK, ToolEffect.DENY)


def strictest(*effects: ToolEffect) -> ToolEffect:
    """Returns the effect that permits least; `deny` without arguments."""
    return max(effects, key=_ORDER.index, default=ToolEffect.DENY)
