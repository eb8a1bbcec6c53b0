"""What the core asks of a tool."""

from dataclasses import dataclass
from typing import Any, Protocol

from skerry.infra.beneath import Beneath
from skerry.model.recall import Found
from skerry.model.tool import ToolResult, ToolSpec


class Recall(Protocol):
    """What was said in the conversation in which a tool runs."""

    async def search(self, query: str, *, limit: int, others: bool) -> Found:
        """Return where words of the query stand; what the present run said is left out.

        `others`: also in the owner's other conversations, where this one is the owner's.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use: the workspace, opened by descriptor, and what was said before."""

    workspace: Beneath
    recall: Recall | None = None
    """None where nobody speaks."""


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
