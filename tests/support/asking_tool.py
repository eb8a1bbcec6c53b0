"""A tool of the tests that a person must approve; each run of it adds a line to a file.

The file is a plugin too.
"""

from collections.abc import Callable
from typing import Any

from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import ApprovalSubject, Assessment, ToolContext
from skerry.sdk.api import PluginApi


def nothing() -> None:
    """Does nothing."""


class AskingTool:
    """Asks about each call, bound to `bound`; the call writes its text to `ran.txt`."""

    verb = Verb.USE
    spec = ToolSpec("asking", "Asks.", {"type": "object"})

    def __init__(self, during: Callable[[], object] = nothing) -> None:
        self.bound = b"as approved"
        self.during = during
        """Called while the call runs."""

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Asks a person; a word `free` is allowed, `never` denied."""
        text = str(arguments.get("text", ""))
        effect = {"free": ToolEffect.ALLOW, "never": ToolEffect.DENY}.get(text, ToolEffect.ASK)
        subject = ApprovalSubject(
            f"ask {text}", ("ask", text), "gateway", str(context.workspace.root), (), self.bound
        )
        return Assessment(effect, "on-miss", "no pattern allows it", subject, ("ask *",))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Writes a line, and returns the text."""
        text = str(arguments.get("text", ""))
        with (context.workspace.root / "ran.txt").open("a") as file:
            file.write(f"{text}\n")
        self.during()
        return ToolResult(f"ran {text}")


def register(api: PluginApi) -> None:
    """Registers the tool."""
    api.register_tool(AskingTool())
