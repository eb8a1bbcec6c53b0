"""Permission to give commands."""

from enum import StrEnum

from skerry.model.errors import SkerryError


class Rights(StrEnum):
    """Rights to give commands, decided when a message arrives and stored with its run."""

    NONE = "none"
    """No commands: text that looks like one is ignored."""
    OPEN = "open"
    """Commands that everybody may give."""
    LISTED = "listed"
    """Also commands that control a conversation; `commands.allowFrom` lists the senders."""
    OWNER = "owner"
    """All."""

    def covers(self, other: "Rights") -> bool:
        """Returns whether these rights include the other rights."""
        order = tuple(Rights)
        return order.index(self) >= order.index(other)


class MissingScopeError(SkerryError):
    """A client gave a command, but may not call the equivalent method."""

    code = "MISSING_SCOPE"

    def __init__(self, command: str, scope: str) -> None:
        self.scope = scope
        self.remedy = (
            f"/{command} requires it. Connect with this scope, or send the text without the slash."
        )
        super().__init__(f"missing scope: {scope}")
