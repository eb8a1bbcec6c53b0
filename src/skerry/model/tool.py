"""Descriptions of tools for the model, and results of tool calls."""

from typing import Any, Final

from msgspec import Struct

from skerry.model.message import Content
from skerry.model.origin import Origin

MAX_DETAILS: Final = 262_144
"""Maximum bytes of the details of a result, as JSON."""


class ToolSpec(Struct, frozen=True):
    """Name, description and JSON Schema of the parameters of a tool, for a model."""

    name: str
    description: str
    parameters: dict[str, Any]
    advice: str = ""
    """Section of the system prompt, with its heading, if the tool is offered; built-in tools
    only."""


class ToolResult(Struct, frozen=True):
    """Result of a tool call; an error is a result too."""

    text: str
    is_error: bool = False
    origin: Origin = Origin.TOOL
    """Origin of the text: `web`, `memory` or `local`; `tool` is any author."""
    blocks: tuple[Content, ...] = ()
    """Blocks after the text for the model, such as pictures."""
    details: dict[str, Any] | None = None
    """JSON object for clients and the transcript, such as an exit code or a diff; no model gets it.

    At most `MAX_DETAILS` bytes; larger details are left out."""
