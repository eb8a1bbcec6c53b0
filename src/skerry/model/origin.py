"""Origin of a message's text, from its arrival on."""

from enum import StrEnum


class Origin(StrEnum):
    """Author or source of a text; it is kept with the message in the transcript and its copies."""

    OWNER = "owner"
    """A client of the gateway, which had to show its secret or an approved device; on a platform,
    somebody in `commands.ownerAllowFrom`."""
    KNOWN = "known"
    """Sender on a platform whom the owner listed."""
    STRANGER = "stranger"
    """Anybody else; also what was stored before origins were, outside main conversations."""
    BOOT = "boot"
    """The checklist BOOT.md at a start: a file of the owner's, in nobody's presence."""
    TOOL = "tool"
    """Text of a tool that may be anybody's, such as a file that a tainted run wrote."""
    LOCAL = "local"
    """Text of the workspace without a record of foreign words, or words of a tool of ours."""
    WEB = "web"
    """Text that a tool fetched from the network."""
    MEMORY = "memory"
    """Text of earlier conversations."""
    PLUGIN = "plugin"
    """Text that a plugin, or a client in the assistant's name, put in place of the original."""


TOOL_ORIGINS = frozenset({Origin.TOOL, Origin.LOCAL, Origin.WEB, Origin.MEMORY})
"""Origins that a tool may give its result."""
