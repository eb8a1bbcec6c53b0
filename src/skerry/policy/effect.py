"""Effects of a gate on a call: allowed, asked about, or denied (pure)."""

from enum import StrEnum


class ToolEffect(StrEnum):
    """Answer of a gate to one call."""

    ALLOW = "allow"
    ASK = "ask"
    """A person must approve the call."""
    DENY = "deny"


_ORDER = (ToolEffect.ALLOW, ToolEffect.ASK, ToolEffect.DENY)


def strictest(*effects: ToolEffect) -> ToolEffect:
    """Returns the effect that permits least; `deny` where no gate was asked."""
    return max(effects, key=_ORDER.index, default=ToolEffect.DENY)
