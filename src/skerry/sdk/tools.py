"""Tools that a plugin offers to the model."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.decide import Request, decide
from skerry.ports.tool import Tool, ToolContext

__all__ = (
    "Caller",
    "FunctionTool",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Verb",
    "may",
)

P = TypeVar("P", bound=BaseModel)


class FunctionTool(Generic[P]):
    """A tool made of a model of its parameters and an async function.

    Args:
        name: What the model calls it: letters, digits, `_` and `-`, at most 64.
        description: When to use it, for the model; every request carries it, so keep it short.
        parameters: What the arguments are checked against; its fields' descriptions are sent too.
        run: Returns the text for the model, or a `ToolResult`. It raises `ToolError` with what the
            model should do instead.

    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: type[P],
        run: Callable[[P, ToolContext], Awaitable[ToolResult | str]],
    ) -> None:
        self.spec = ToolSpec(name, description, parameters.model_json_schema())
        self._parameters = parameters
        self._run = run

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Checks the arguments and calls the function."""
        result = await self._run(self._parameters.model_validate(arguments), context)
        return ToolResult(result) if isinstance(result, str) else result


def may(context: ToolContext, verb: Verb) -> str:
    """Returns why whoever asks may not do this in a call; empty if they may.

    A conversation that has read words of others than the owner may change no memory, for example.
    """
    decision = decide(Request(context.actor, verb))
    return "" if decision.allowed else decision.reason
