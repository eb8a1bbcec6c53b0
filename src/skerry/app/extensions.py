"""Tools, commands, hooks and plugins of a gateway."""

from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.late import commands, folders, loader, session_search
from skerry.app.late import skills as plugin_skills
from skerry.app.plugin_parts import PluginParts
from skerry.app.records import stored_records
from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import HandlerReport
from skerry.infra.clock import Clock
from skerry.policy.tool_names import CORE, MEMORY_TOOLS
from skerry.ports.checks import Check
from skerry.ports.plugins import PluginReport
from skerry.ports.tool import Tool, ToolSource, verb_of
from skerry.runtime.run_context import Runtime
from skerry.runtime.toolbox import Toolbox
from skerry.sdk.embedding import Embeddings, NoEmbeddings
from skerry.sdk.features import Features, registered
from skerry.sdk.host import PluginHost
from skerry.sdk.http import HttpRoute
from skerry.sdk.methods import GatewayMethod
from skerry.sdk.registrations import Event, Panel
from skerry.sdk.slots import MemoryHolder
from skerry.sdk.transcripts import Transcripts
from skerry.store import Store, no_fault
from skerry.workspace.skill_catalogue import SkillCatalogue

if TYPE_CHECKING:
    from skerry.sdk.tool_host import ToolHost


class OwnTools(Toolbox):
    """The tools of this program: of the kernel, of the memory, and of features.

    Raises:
        RuntimeError: a tool declares no verb.
    """

    def __init__(
        self,
        memory: Callable[[], Iterable[Tool]],
        host: "Callable[[], ToolHost] | None" = None,
        features: Features | None = None,
    ) -> None:
        """Stores the parts; the tools are made at the first use.

        Args:
            memory: Returns the tools of the memory.
            host: Returns the host for tools of features; None to have no such tools.
            features: Features that register tools; by default all installed ones.

        """
        super().__init__(self._make_tools, self._make_tool_sources)
        self._memory = memory
        self._host = host
        self._registered = features
        self.features: list[Tool] = []
        """Tools that features registered with the methods of `PluginApi`."""

    def reserved_names(self, config: Config) -> frozenset[str]:
        """Returns the names that no tool of a plugin may have, without making tools."""
        names = CORE if config.plugins.slots.memory == "memory-core" else CORE - MEMORY_TOOLS
        return names | {tool.spec.name for tool in self.features}

    def _make_tools(self) -> Iterable[Tool]:
        tools = (
            *self._host_tools(),
            session_search.SessionSearch(),
            *self._memory(),
            *self.features,
        )
        if unruled := sorted(tool.spec.name for tool in tools if verb_of(tool) is None):
            raise RuntimeError(f"no verb is declared by: {', '.join(unruled)}")
        return tools

    def _make_tool_sources(self) -> Mapping[str, ToolSource]:
        if self._host is None:
            return {}
        host = self._host()
        loads = (self._registered or registered()).tool_sources
        return {name: load()(host) for name, load in loads.items()}

    def _host_tools(self) -> Iterator[Tool]:
        if self._host is not None:
            host = self._host()
            for load in (self._registered or registered()).tools:
                yield from load()(host)


def connect_features(
    hooks: Hooks, tools: OwnTools, parts: PluginParts, features: Features | None = None
) -> None:
    """Connects the parts that features registered with the methods of `PluginApi`."""
    for name, feature_parts in (features or registered()).registrations.items():
        for hook, handler in feature_parts.handlers:
            hooks.points[hook].add(handler)
        tools.features += feature_parts.tools
        parts.connect(name, feature_parts)


class LivePlugins:
    """The plugins of the present configuration. Implements `gateway.context.LoadedPlugins`.

    Modules for plugins are imported when the configuration names one.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        runtime: Runtime,
        tools: OwnTools,
        parts: PluginParts,
        reach: Callable[[str], None] = no_fault,
        embeddings: Embeddings | None = None,
    ) -> None:
        self._reach = reach
        self._embeddings = embeddings or NoEmbeddings()
        self._config = config
        self._runtime = runtime
        self._tools = tools
        self._parts = parts
        self._loaded: loader.Plugins | None = None
        self._changed = anyio.Event()

    def touch(self, _: Config) -> None:
        """Applies a change of the configuration soon."""
        self._changed.set()

    async def load(self) -> None:
        """Loads the configured plugins; a failed one does not affect the others."""
        config = self._config()
        section = config.plugins
        if self._loaded is None:
            is_builtin = section.slots.memory in {"memory-core", "none"}
            if is_builtin and not (section.load.paths or section.entries or section.allow):
                return
            runtime = self._runtime
            host = PluginHost(
                runtime.clock,
                Transcripts(runtime.store),
                reach=self._reach,
                embeddings=self._embeddings,
            )
            self._loaded = loader.Plugins(
                runtime.hooks,
                runtime.commands,
                self._tools.reserved_names(config),
                self._parts,
                host,
            )
            self._tools.plugins = self._loaded.tools
        await self._loaded.apply(config)
        self._runtime.prompts.skills.plugins = plugin_skills.by_name(
            self._loaded.registered.values()
        )
        self._parts.claims.reason = slot_reason(config, self._loaded.reports)

    async def run(self) -> None:
        """Loads and removes plugins as the configuration changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self.load()

    @asynccontextmanager
    async def ending(self) -> AsyncGenerator[None]:
        """Removes all plugins at the end of the block."""
        try:
            yield
        finally:
            if self._loaded is not None:
                with anyio.CancelScope(shield=True):  # each call of a plugin has a deadline
                    await self._loaded.close()

    @property
    def reports(self) -> Sequence[PluginReport]:
        """Returns the state of each plugin that the configuration names."""
        return self._loaded.reports if self._loaded else ()

    @property
    def methods(self) -> Mapping[str, GatewayMethod]:
        """Returns the gateway methods of plugins."""
        return self._loaded.methods if self._loaded else {}

    @property
    def events(self) -> Sequence[Event]:
        """Returns the events of plugins."""
        return self._loaded.events if self._loaded else ()

    @property
    def routes(self) -> Mapping[str, Sequence[HttpRoute]]:
        """Returns the HTTP routes of each plugin."""
        return self._loaded.routes if self._loaded else {}

    @property
    def panels(self) -> Sequence[Panel]:
        """Returns the panels of plugins on the page."""
        return self._loaded.panels if self._loaded else ()

    @property
    def skills(self) -> SkillCatalogue:
        """Returns the skills of agents."""
        return self._runtime.prompts.skills

    async def checks(self) -> Sequence[Check]:
        """Returns the results of the checks of all plugins."""
        return await self._loaded.checks() if self._loaded else ()

    def changed(self, report: PluginReport) -> bool:
        """Returns True when the files of a loaded plugin have changed since it was loaded."""
        return self._loaded is not None and self._loaded.changed(report)

    def handlers(self) -> Sequence[HandlerReport]:
        """Returns the counts and state of each function of the plugins."""
        return self._loaded.handlers() if self._loaded else self._runtime.hooks.report()


def slot_reason(config: Config, reports: Sequence[PluginReport]) -> str:
    """Returns the reason why the plugin in `plugins.slots.memory` is not loaded; empty if it is."""
    named = (report for report in reports if report.id == config.plugins.slots.memory)
    report = next(named, None)
    if report is None:
        return ""
    return " ".join(filter(None, (report.reason, report.remedy)))


def provide_commands(desk: CommandDependencies, memory: MemoryHolder) -> None:
    """Adds the built-in commands to the gateway of `desk`."""

    def fill() -> tuple[Command, ...]:
        return (*commands.every_command(desk), *memory.commands())

    desk.dispatcher.runtime.commands.provide(fill)


async def load_hook_folders(
    config: Config, hooks: Hooks, environ: Mapping[str, str], clock: Clock, store: Store
) -> None:
    """Loads the hooks that the configuration enables; logs a failed one."""
    if config.hooks.internal.enabled and config.hooks.internal.entries:
        await folders.load_hooks(config, hooks, environ, clock, await stored_records(store, clock))
