"""Origin of the text of a message."""

from enum import StrEnum


class Origin(StrEnum):
    """Author or source of a text; it is stored with the message and with its copies."""

    OWNER = "owner"
    """An authenticated client of the gateway; on a platform, a sender in
    `commands.ownerAllowFrom`."""
    KNOWN = "known"
    """A sender on a platform that the owner listed."""
    STRANGER = "stranger"
    """Any other sender; also text outside main conversations that was stored without an origin."""
    BOOT = "boot"
    """The checklist BOOT.md at a start: a file of the owner, which no person sent."""
    TOOL = "tool"
    """Text of a tool that may have any author, such as a file that a tainted run wrote."""
    LOCAL = "local"
    """Text of the workspace without a record of foreign text, or text of a built-in tool."""
    WEB = "web"
    """Text that a tool fetched from the network."""
    MEMORY = "memory"
    """Text of earlier conversations."""
    PLUGIN = "plugin"
    """Text that a plugin, or a client in the name of the assistant, wrote instead of the
    original."""


TOOL_ORIGINS = frozenset({Origin.TOOL, Origin.LOCAL, Origin.WEB, Origin.MEMORY})
"""Origins that a tool may set for its result."""
