"""Permission to give commands."""

from enum import StrEnum

from skerry.model.errors import SkerryError


class Rights(StrEnum):
    """Settled when a message arrives, and stored with its run."""

    NONE = "none"
    """No commands: text that looks like one is ignored."""
    OPEN = "open"
    """Commands for everybody."""
    LISTED = "listed"
    """Commands that steer a conversation too: `commands.allowFrom` names the senders."""
    OWNER = "owner"
    """All."""

    def covers(self, other: "Rights") -> bool:
        """Returns whether these are as many as the other's, or more."""
        order = tuple(Rights)
        return order.index(self) >= order.index(other)


class MissingScopeError(SkerryError):
    """A client gives a command whose method it may not call."""

    code = "MISSING_SCOPE"

    def __init__(self, command: str, scope: str) -> None:
        self.scope = scope
        self.remedy = f"/{command} needs it. Connect with it, or send the words without the slash."
        super().__init__(f"missing scope: {scope}")
