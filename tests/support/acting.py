"""A tool with an effect, in which a test can leave a run open."""

from typing import Any

from skerry.model.message import ToolCall
from skerry.model.tool import ToolResult, ToolSpec
from skerry.ports.tool import ToolContext
from skerry.testing.model import ReplyGate

ACT = ToolCall("c1", "act", {})


class Act:
    """A tool with an effect, which does not end before its gate opens."""

    spec = ToolSpec("act", "Acts.", {"type": "object"})

    def __init__(self, gate: ReplyGate) -> None:
        self.gate = gate

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Waits."""
        del arguments, context
        await self.gate.hold()
        return ToolResult("done")
