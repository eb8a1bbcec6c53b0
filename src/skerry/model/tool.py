"""Tools as the model sees them."""

from dataclasses import dataclass
from typing import Any

from skerry.model.origin import Origin


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Name, description and JSON Schema of the parameters, as offered to a model."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers; an error is an answer too."""

    text: str
    is_error: bool = False
    origin: Origin = Origin.TOOL
    """`web` or `memory` where the text is from there."""
