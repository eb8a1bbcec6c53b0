"""Tools of plugins: `FunctionTool`, and the types of its calls and results."""

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
    """A tool that consists of a pydantic model of its parameters and an async function.

    Args:
        name: Name for the model: at most 64 letters, digits, `_` and `-`.
        description: Tells the model when to use the tool. Every request contains it: keep it short.
        parameters: Model that checks the arguments; its JSON Schema is sent to the model.
        run: Gets the checked arguments and the context; returns a text or a `ToolResult`. It raises
            `ToolError` with advice for the model.

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
        """Checks the arguments and calls the function.

        Raises:
            ValidationError: the arguments do not fit the model.
        """
        result = await self._run(self._parameters.model_validate(arguments), context)
        return ToolResult(result) if isinstance(result, str) else result


def may(context: ToolContext, verb: Verb) -> str:
    """Returns the reason why the policy forbids `verb` in this call; empty when it is allowed.

    For example, a conversation that contains untrusted text must not change the memory.
    """
    decision = decide(Request(context.actor, verb))
    return "" if decision.allowed else decision.reason
