"""Servers of the tests, and a host for the source of their tools."""

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from skerry.config.root import Config
from skerry.features.mcp.config import McpConfig
from skerry.features.mcp.mcp_tools import McpTools
from skerry.infra.clock import Clock
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.sdk.tool_host import ToolHost
from skerry.store import open_store
from skerry.testing.clock import FakeClock

SMALL = Path(__file__).with_name("small_mcp.py")
OWNER = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
GUEST = Caller(SessionKey.parse("agent:main:matrix:group:1"), PeerKind.GROUP, Origin.STRANGER)


def tool(name: str, description: str = "Does it.", **more: Any) -> dict[str, Any]:
    """Returns an entry of `tools/list`."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


class Script:
    """The file that a small server follows."""

    def __init__(self, path: Path, *tools: dict[str, Any], **more: Any) -> None:
        self.path = path
        self.write(*tools, **more)

    def write(self, *tools: dict[str, Any], **more: Any) -> None:
        self.path.write_text(json.dumps({"tools": tools, **more}))

    @property
    def server(self) -> dict[str, Any]:
        """Returns the entry of the configuration."""
        command = [sys.executable, "-I", "-S", str(SMALL), str(self.path)]
        return {"command": command[0], "args": command[1:]}

    @property
    def log(self) -> list[str]:
        """Returns the process ids and methods that the server noted."""
        log = self.path.with_suffix(".log")
        return log.read_text().splitlines() if log.exists() else []

    @property
    def pids(self) -> list[int]:
        return [int(line[4:]) for line in self.log if line.startswith("pid ")]


class Hosted:
    """A source of tools with a host of its own."""

    def __init__(self, source: McpTools, holder: list[Config]) -> None:
        self.source = source
        self._holder = holder

    def configure(self, home: Path, servers: Mapping[str, Any]) -> None:
        """Replaces the configuration."""
        self._holder[:] = [config_of(home, servers)]


def config_of(home: Path, servers: Mapping[str, Any], **more: Any) -> Config:
    """Returns a configuration with these servers."""
    section = McpConfig.model_validate({"servers": servers})
    return Config(state_dir=home, path=home / "skerry.json", mcp=section, **more)


@asynccontextmanager
async def hosted(
    home: Path,
    servers: Mapping[str, Any],
    *,
    clock: Clock | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Hosted]:
    """Opens a source of tools with the state in `home`; ends its servers at the end."""
    holder = [config_of(home, servers)]
    async with open_store(home / "state.sqlite") as store, anyio.create_task_group() as tasks:

        def start(work: Callable[[], Awaitable[None]], _: str) -> None:
            async def run() -> None:
                await work()

            tasks.start_soon(run)

        host = ToolHost(
            config=lambda: holder[0],
            store=store,
            environ=environ or {"PATH": "/usr/bin", "HOME": str(home)},
            clock=clock or FakeClock(),
            start=start,
        )
        yield Hosted(McpTools(host), holder)
        tasks.cancel_scope.cancel()
