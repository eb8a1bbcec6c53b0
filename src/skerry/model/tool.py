"""Tools as the model sees them."""

from typing import Any, Final

from msgspec import Struct

from skerry.model.message import Content
from skerry.model.origin import Origin

MAX_DETAILS: Final = 262_144
"""Bytes of the details of a result, as JSON."""


class ToolSpec(Struct, frozen=True):
    """Name, description and JSON Schema of the parameters, as offered to a model."""

    name: str
    description: str
    parameters: dict[str, Any]
    advice: str = ""
    """Section of the system prompt of who is offered the tool, with its heading; for our own."""


class ToolResult(Struct, frozen=True):
    """Result of a tool call; an error is a result too."""

    text: str
    is_error: bool = False
    origin: Origin = Origin.TOOL
    """`web`, `memory` or `local` where the text is from there."""
    blocks: tuple[Content, ...] = ()
    """Blocks that follow the text, such as pictures; the model gets them."""
    details: dict[str, Any] | None = None
    """JSON object for clients and the transcript, such as an exit code or a diff; no model gets it.

    At most `MAX_DETAILS` bytes; larger details are left out."""
