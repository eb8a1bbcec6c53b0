"""The tools of the web in the small internet of `net_lab`, under a configuration."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from skerry.config.root import Config
from skerry.features.web.web_fetch import WebFetch
from skerry.features.web.web_search import WebSearch
from skerry.model.tool import ToolResult
from skerry.net.live_client import LiveClient, make_client
from skerry.ports.tool import Tool, ToolContext
from skerry.sdk.tool_host import ToolHost
from skerry.testing.clock import FakeClock
from tests.support.net_lab import Lab

CONTEXT = ToolContext(workspace=None)  # type: ignore[arg-type] # no tool of the web opens files


class Host:
    """A host whose configuration a test changes."""

    def __init__(self, folder: Path, web: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.environ = environ
        self.set(web)

    def set(self, web: Mapping[str, Any]) -> None:
        """Replaces the section `tools.web`."""
        self.config = Config.model_validate(
            {"tools": {"web": web}, "state_dir": self.folder, "path": self.folder / "skerry.json"}
        )

    @property
    def host(self) -> ToolHost:
        """The host as a tool gets it."""
        return ToolHost(
            config=lambda: self.config,
            store=None,  # type: ignore[arg-type] # no tool of the web stores
            environ=self.environ,
            clock=self.clock,
        )


def tools(
    world: Lab,
    folder: Path,
    web: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[WebFetch, WebSearch, Host]:
    """Returns both tools and their host."""
    made = Host(folder, web or {}, environ or {})
    make = partial(make_client, resolve=world.resolve, dial=world.dial)
    return (
        WebFetch(made.host, LiveClient(make)),
        WebSearch(made.host, LiveClient(make)),
        made,
    )


async def call(tool: Tool, **arguments: Any) -> dict[str, Any]:
    """Returns the JSON of a result."""
    payload: dict[str, Any] = json.loads((await result(tool, **arguments)).text)
    return payload


async def result(tool: Tool, **arguments: Any) -> ToolResult:
    """Returns the result of a call."""
    return await tool.run(arguments, CONTEXT)
