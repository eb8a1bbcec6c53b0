"""What the core asks of a tool."""

from dataclasses import dataclass
from typing import Any, Protocol

from skerry.infra.beneath import Beneath
from skerry.model.tool import ToolResult, ToolSpec


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use: the workspace, opened by descriptor."""

    workspace: Beneath


class Tool(Protocol):
    """One capability that a model may call."""

    @property
    def spec(self) -> ToolSpec:
        """Return what is offered to the model."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Check the arguments and do the work.

        Raises:
            ToolError: with a message that tells the model what to do instead.
        """
        ...
