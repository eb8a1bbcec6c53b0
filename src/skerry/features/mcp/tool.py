"""A tool of an MCP server as the gateway's models see it."""

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from skerry.features.mcp.config import selects
from skerry.features.mcp.listed_tool import ListedTool
from skerry.model.errors import ToolError
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import ApprovalSubject, Assessment, ToolContext

if TYPE_CHECKING:
    from skerry.features.mcp.mcp_server import McpServer

MAX_ARGUMENTS: Final = 262_144
"""Limit of the arguments of a call, in bytes of JSON."""


class McpTool:
    """Calls one tool of a server. Implements `ports.tool.Tool`.

    Its text is of others. A call requires an approval, unless the owner's configuration allows the
    tool and the call is in a run of the owner.
    """

    def __init__(self, server: "McpServer", tool: ListedTool, name: str) -> None:
        self._server = server
        self._tool = tool
        self.plugin = f"mcp_{server.name}"
        """Id by which lists of tools select all tools of the server."""
        settings = server.settings
        reads = tool.declares_read_only and settings.auto_approve_read_only
        self.is_auto_approved = reads or selects(settings.auto_approve, tool.name)
        self.reads_only = tool.declares_read_only and self.is_auto_approved
        """True when both the server and the owner say so; the server alone may lie."""
        text = tool.description or "No description."
        self.spec = ToolSpec(name, f"[MCP server {server.name}] {text}", tool.parameters)

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns whether the call needs an approval; a tool that is held back is denied.

        Raises:
            ToolError: the arguments are too long.
        """
        if not self._server.trusts(self._tool):
            reason = f"it changed; your owner can trust it: skerry mcp trust {self._server.name}"
            return Assessment(ToolEffect.DENY, "mcp-held", reason)
        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        content = f"{self._server.name}\0{self._tool.name}\0{self._tool.digest}\0{text}".encode(
            errors="replace"
        )
        if len(content) > MAX_ARGUMENTS:
            raise ToolError(f"The arguments have more than {MAX_ARGUMENTS} bytes. Pass less.")
        subject = ApprovalSubject(
            f"{self._server.name}: {self._tool.name} {text}",
            binding=hashlib.sha256(content).digest(),
        )
        if self.is_auto_approved and context.actor.acts_for_owner:
            return Assessment(ToolEffect.ALLOW, "mcp-auto-approved", subject=subject)
        reason = f"it calls {self._tool.name} of the MCP server {self._server.name}"
        return Assessment(ToolEffect.ASK, "mcp-ask", reason, subject)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the result of the server.

        Raises:
            ToolError: the server is down, refused the call, or did not answer in time.
        """
        del context
        outcome = await self._server.call(self._tool, arguments)
        return ToolResult(
            outcome.text,
            is_error=outcome.is_error,
            blocks=outcome.pictures,
            details={"server": self._server.name, "tool": self._tool.name, **outcome.details},
        )
