"""Loads a plugin for its own tests with the loader of the gateway, and calls its parts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skerry.commands.table import CommandCall, CommandTable
from skerry.config.check import check
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import PluginError
from skerry.model.ids import SessionKey
from skerry.plugins.loader import Plugins, load_plugins
from skerry.ports.plugins import PluginStatus
from skerry.ports.tool import ToolContext
from skerry.sdk.methods import MethodCall


class LoadedPlugin:
    """A loaded plugin; each call is guarded as in the gateway."""

    def __init__(self, plugins: Plugins, workspace: Path) -> None:
        self.plugins = plugins
        self.hooks = plugins.hooks
        """All hook points: `await plugin.hooks.message_received.run(payload)`."""
        self._workspace = workspace

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Calls a tool; returns the text for the model.

        Raises:
            ToolError: the tool failed; the message has the remedy.
        """
        context = ToolContext(RootedFolder(self._workspace))
        return (await self.plugins.tools[name].run(dict(arguments), context)).text

    async def command(self, name: str, arguments: str = "", *, is_owner: bool = True) -> str:
        """Runs a chat command; returns its response.

        Raises:
            CommandError: the command failed.
        """
        command = next(candidate for candidate in self.plugins.commands if candidate.name == name)
        call = CommandCall(name, arguments, SessionKey.main(), "webchat", is_owner=is_owner)
        return await command.run(call)

    async def method(
        self, name: str, params: Mapping[str, Any], *, scopes: tuple[str, ...] = ("operator.admin",)
    ) -> Any:
        """Calls a gateway method by its full name; returns its result.

        Raises:
            PluginError: the method failed.
            ValidationError: the parameters are invalid.
        """
        method = self.plugins.methods[name]
        return await method.run(method.params.model_validate(params), MethodCall(scopes, "test"))


@asynccontextmanager
async def loaded_plugin(
    path: Path, config: Mapping[str, Any] | None = None
) -> AsyncIterator[LoadedPlugin]:
    """Loads the plugin at `path` with this configuration, in a temporary state directory.

    Raises:
        PluginError: the plugin cannot be loaded.
    """
    with TemporaryDirectory(prefix="skerry-plugin-") as home:
        entry = {"config": dict(config or {})}
        section = {"load": {"paths": [str(path)]}, "entries": {path.stem: entry}}
        file = Path(home) / "skerry.json"
        checked, _ = check({"plugins": section}, state_dir=Path(home), path=file)
        async with Hooks() as hooks:
            plugins = await load_plugins(checked, hooks, CommandTable(), ())
            try:
                (report,) = plugins.reports
                if report.status is not PluginStatus.LOADED:
                    raise PluginError(report.reason, report.remedy)
                yield LoadedPlugin(plugins, Path(home))
            finally:
                await plugins.close()
