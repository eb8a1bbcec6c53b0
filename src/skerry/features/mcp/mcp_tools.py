"""The source of the tools of MCP servers: follows the configuration and prepares runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from skerry.features.mcp.late import config as sections
from skerry.features.mcp.late import mcp_server
from skerry.model.caller import Caller
from skerry.policy.decide import Actor
from skerry.policy.tool_names import SERVERS
from skerry.ports.tool import Tool
from skerry.sdk.tool_host import ToolHost

if TYPE_CHECKING:
    from skerry.config.root import Config
    from skerry.features.mcp.mcp_server import McpServer

FEATURE: Final = "mcp"
"""Name of the feature, and of its section."""
WAIT_SECONDS: Final = 15.0
"""Time for which a run waits at most for the first list of servers; they start concurrently."""


def make(host: ToolHost) -> "McpTools":
    """Returns the source of this feature."""
    return McpTools(host)


class McpTools:
    """Tools of the configured servers. Implements `ports.tool.ToolSource`.

    A server is started when a run needs its list for the first time, and when a tool is called. The
    stored list makes tools available without a start.
    """

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._config: Config | None = None
        self.servers: dict[str, McpServer] = {}
        """Enabled servers by name."""
        self.is_active = False
        self.follow()
        host.on_config_change(lambda _: self.follow())

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Returns the trusted tools of all servers by name."""
        self.follow()
        if not self.servers:
            return {}
        return {
            name: tool for server in self.servers.values() for name, tool in server.tools.items()
        }

    @property
    def problems(self) -> Sequence[str]:
        """Returns the servers that failed, and those with tools that are held back."""
        return [text for server in self.servers.values() for text in server.problems]

    def follow(self) -> None:
        """Adds, changes and removes servers as the present configuration says."""
        config = self._host.config()
        if config is self._config:
            return
        self._config = config
        section = None
        if FEATURE in config.model_fields_set:
            section = config.own_section(sections.McpConfig)
        enabled = {
            name: settings
            for name, settings in (section.servers.items() if section else ())
            if settings.enabled
        }
        for name, server in list(self.servers.items()):
            if enabled.get(name) != server.settings:
                self.servers.pop(name).stop()
        for name, settings in enabled.items():
            if name not in self.servers:
                self.servers[name] = mcp_server.McpServer(name, settings, self._host)
        self.is_active = bool(self.servers)

    async def prepare(self, caller: Caller) -> None:
        """Reads the stored lists, and waits a limited time for servers without a list."""
        self.follow()
        if not self.servers or not self._may_use(caller):
            return
        starting = [each for each in self.servers.values() if not await each.load()]
        with anyio.move_on_after(WAIT_SECONDS):
            for server in starting:
                server.begin()
            for server in starting:
                await server.first_attempt()

    def _may_use(self, caller: Caller) -> bool:
        if Actor.of(caller).acts_for_owner:
            return True
        guests = self._host.config().tool_rules(caller.key.agent).guests
        return any(name.startswith(SERVERS) for name in guests)
