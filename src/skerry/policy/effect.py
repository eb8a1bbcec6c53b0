"""Effects of a gate on a call: allowed, asked about, or denied (pure)."""

from enum import StrEnum


class Effect(StrEnum):
    """Answer of a gate to one call."""

    ALLOW = "allow"
    ASK = "ask"
    """A person must approve the call."""
    DENY = "deny"


_ORDER = (Effect.ALLOW, Effect.ASK, Effect.DENY)


def strictest(*effects: Effect) -> Effect:
    """Returns the effect that permits least; `deny` where no gate was asked."""
    return max(effects, key=_ORDER.index, default=Effect.DENY)
