"""Where the words of a message come from, from the moment they arrive."""

from enum import StrEnum


class Origin(StrEnum):
    """Who, or what, said it. It stays with the message in the transcript and all its copies."""

    OWNER = "owner"
    """A client of the gateway, which had to show its secret or an approved device; on a platform,
    somebody in `commands.ownerAllowFrom`."""
    KNOWN = "known"
    """Somebody on a platform whom the owner listed."""
    STRANGER = "stranger"
    """Anybody else; also what was stored before origins were."""
    BOOT = "boot"
    """The checklist BOOT.md at a start: a file of the owner's, in nobody's presence."""
    TOOL = "tool"
    """What a tool found on this machine."""
    WEB = "web"
    """What a tool brought from the network."""
    MEMORY = "memory"
    """What was remembered from earlier conversations."""
    PLUGIN = "plugin"
    """What a plugin, or a client in the assistant's name, put in place of what was said."""


FOUND = frozenset({Origin.TOOL, Origin.WEB, Origin.MEMORY})
"""What a tool may say of its result."""
