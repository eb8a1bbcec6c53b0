"""Tools as the model sees them."""

from typing import Any

from msgspec import Struct

from skerry.model.origin import Origin


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
    """`web` or `memory` where the text is from there."""
