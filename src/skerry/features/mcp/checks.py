"""Check of `skerry doctor`: the SDK is installed, and the programs of MCP servers exist."""

import importlib.util
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skerry.features.mcp.config import McpConfig, McpServerConfig
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation

REMEDY: Final = "Install the extra: pip install 'skerry[mcp]', then start the gateway again."


async def servers(installation: Installation) -> Iterable[Check]:
    """Returns a check for each enabled server; starts none."""
    section = installation.config.own_section(McpConfig) if installation.config else None
    enabled = {
        name: server
        for name, server in (section.servers.items() if section else ())
        if server.enabled
    }
    if not enabled:
        return []
    if importlib.util.find_spec("mcp") is None:
        message = f"{len(enabled)} MCP servers are configured, and the SDK is not installed."
        return [Check("mcp", Level.FAILURE, message, REMEDY)]
    path = installation.environ.get("PATH")
    return list(_findings(enabled, path))


def problems(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields a warning for each server that failed, or whose tools are held back."""
    for text in status.get("toolProblems", ()):
        yield Check("mcp", Level.WARNING, text, "skerry mcp list")


def _findings(enabled: dict[str, McpServerConfig], path: str | None) -> Iterator[Check]:
    for name, server in enabled.items():
        key = f"mcp.servers.{name}"
        if server.command is not None:
            program = str(Path(server.command).expanduser())
            if shutil.which(program, path=path) is None:
                message = f"The program {server.command} of the MCP server {name} does not exist."
                yield Check("mcp", Level.FAILURE, message, f"Install it, or change {key}.command.")
                continue
        elif server.headers and server.target is not None and server.target.scheme == "http":
            message = f"The headers of the MCP server {name} are sent without encryption."
            yield Check("mcp", Level.WARNING, message, f"Use https in {key}.url.")
        if "*" in server.auto_approve:
            message = f"Every tool of the MCP server {name} runs without approval."
            yield Check("mcp", Level.WARNING, message, f"Name tools in {key}.autoApprove.")
        else:
            yield Check("mcp", Level.OK, f"{name}: {server.kind}, {server.shown}.")
