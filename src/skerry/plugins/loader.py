"""Loads the plugins that the configuration names, and removes all others.

Code is checked and run in a thread with a deadline. The registrations of a plugin take effect all
together or not at all. A failed plugin is reported and does not affect the others.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from msgspec.structs import replace

from skerry.commands.table import CommandTable
from skerry.config.plugins import PluginEntryConfig
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import HandlerReport
from skerry.infra.clock import SystemClock
from skerry.infra.supervise import Supervisor
from skerry.model.errors import PluginError
from skerry.model.ids import AgentId
from skerry.plugins.discovery import Candidate, candidates, entry_of
from skerry.plugins.guarded import (
    GuardedCall,
    GuardedTool,
    guarded_check,
    guarded_command,
    guarded_method,
    guarded_route,
)
from skerry.plugins.guarded_providers import guard_providers
from skerry.plugins.lifecycle import begin, drop, end
from skerry.plugins.packages import Package, read_plugin
from skerry.plugins.registered import check
from skerry.plugins.registering import loaded_report, register
from skerry.plugins.slots import check_slot, missing_slots, off
from skerry.policy.network import NetworkRules
from skerry.ports.checks import Check
from skerry.ports.plugins import PluginReport, PluginStatus
from skerry.sdk.host import PluginHost
from skerry.sdk.http import HttpRoute
from skerry.sdk.methods import GatewayMethod
from skerry.sdk.registrations import Event, Panel, Registered
from skerry.sdk.tool_host import names_tool

if TYPE_CHECKING:
    from skerry.ports.tool import Tool

logger = logging.getLogger(__name__)

PROCESS_SECONDS: Final = 5.0
"""Seconds for the processes of plugins to end, when the gateway stops."""


class Gateway(Protocol):
    """The parts of the gateway to which plugins are connected."""

    def connect(self, plugin: str, registered: Registered) -> None:
        """Starts the events, services, channels and models of a plugin.

        Raises:
            PluginError: a name is in use; nothing is started.
        """
        ...

    def disconnect(self, plugin: str, registered: Registered) -> None:
        """Stops the events, services, channels and models of a plugin."""
        ...


class Unconnected:
    """A gateway without events, services, channels and models, such as that of a test."""

    def connect(self, plugin: str, registered: Registered) -> None:
        """Starts nothing."""

    def disconnect(self, plugin: str, registered: Registered) -> None:
        """Ends nothing."""


@dataclass(slots=True)
class _Loaded:
    """A loaded plugin."""

    registered: Registered
    entry: PluginEntryConfig
    package: Package
    guards: list[GuardedCall]
    tools: list[GuardedTool]
    methods: list[GatewayMethod]
    routes: list[HttpRoute]


@dataclass(slots=True)
class _Ready:
    """A plugin whose registrations are not effective yet."""

    registered: Registered
    package: Package


Outcome = _Ready | _Loaded | PluginError | str
"""A loaded plugin, or the error or reason why it is not loaded."""


class Plugins:
    """All plugins that the configuration names, and the parts of the loaded ones.

    Args:
        hooks: Receives their handlers.
        commands: Receives their commands.
        reserved_tools: Names that no tool of a plugin may have.
        gateway: Receives events, services, channels and models.
        host: Parts of the gateway behind each `PluginApi`.

    """

    def __init__(
        self,
        hooks: Hooks,
        commands: CommandTable,
        reserved_tools: Collection[str],
        gateway: Gateway | None = None,
        host: PluginHost | None = None,
    ) -> None:
        self.hooks = hooks
        self.commands = commands
        self.tools: dict[str, Tool] = {}
        self.methods: dict[str, GatewayMethod] = {}
        self.routes: dict[str, list[HttpRoute]] = {}
        """Routes of each plugin."""
        self.panels: list[Panel] = []
        self.reports: list[PluginReport] = []
        self._reserved_tools = reserved_tools
        self._gateway = gateway or Unconnected()
        self._loaded: dict[str, _Loaded] = {}
        self._network = NetworkRules()
        self._config: Config | None = None
        self._processes = Supervisor(host.clock if host else SystemClock())
        """Runs the processes of plugins."""
        self._host = replace(host or PluginHost(), network=lambda: self._network)

    @property
    def events(self) -> list[Event]:
        """Returns the events of plugins."""
        return [event for loaded in self._loaded.values() for event in loaded.registered.events]

    @property
    def registered(self) -> dict[str, Registered]:
        """Returns the registrations of each loaded plugin."""
        return {plugin: loaded.registered for plugin, loaded in self._loaded.items()}

    def handlers(self) -> list[HandlerReport]:
        """Returns the counts and state of each function of the plugins."""
        guards = (guard for loaded in self._loaded.values() for guard in loaded.guards)
        return [*self.hooks.report(), *(guard.report() for guard in guards)]

    def changed(self, report: PluginReport) -> bool:
        """Returns True when the files of a loaded plugin have changed since it was loaded."""
        loaded = self._loaded.get(report.id)
        if loaded is None or not loaded.package.files:
            return False
        try:
            read_plugin(Path(report.path), report.sha256, ())
        except PluginError:
            return True
        return False

    async def checks(self) -> list[Check]:
        """Returns the results of the checks of all plugins; a failed check is a warning."""
        return [
            finding
            for plugin, loaded in self._loaded.items()
            for check in loaded.registered.checks
            for finding in await guarded_check(self.hooks.runner, plugin, check)
        ]

    async def apply(self, config: Config) -> None:
        """Loads the plugins that the configuration names, and removes all others.

        A plugin with changed files or settings is removed and loaded again.
        """
        self._network = config.tools.web.fetch.ssrf_policy.rules
        self._config = config
        every = candidates(config, installed=False)
        outcomes = await self._outcomes(config, every)
        await self._remove_others(every, outcomes)
        outcomes = self._admitted(config, every, outcomes)
        await self._begin(every, outcomes)
        before = {report.id: report.status for report in self.reports}
        self.reports = [
            await self._report(config, candidate, outcome)
            for candidate, outcome in zip(every, outcomes, strict=True)
        ]
        self.reports += missing_slots(config, {candidate.id for candidate in every})
        if before:
            now = {report.id: report.status for report in self.reports}
            changes = [
                f"{plugin_id} {now.get(plugin_id, 'removed')}"
                for plugin_id in sorted({*before, *now})
            ]
            logger.info("plugins: %s", ", ".join(changes))

    async def _outcomes(self, config: Config, every: list[Candidate]) -> list[Outcome]:
        """Registers each candidate; returns its registrations, or the reason for none."""
        outcomes: list[Outcome] = [""] * len(every)

        async def take(number: int, candidate: Candidate) -> None:
            try:
                outcomes[number] = await self._outcome(config, candidate)
            except PluginError as error:
                outcomes[number] = error

        async with (
            anyio.create_task_group() as group
        ):  # concurrently: a hanging plugin delays no other
            for number, candidate in enumerate(every):
                try:
                    reason = candidate.refusal(config)
                except PluginError as error:
                    outcomes[number] = error
                else:
                    if reason is None:
                        group.start_soon(take, number, candidate)
                    else:
                        outcomes[number] = reason
        return outcomes

    async def _outcome(self, config: Config, candidate: Candidate) -> _Ready | _Loaded:
        package = candidate.package(config)
        loaded = self._loaded.get(candidate.id)
        entry = entry_of(config, candidate.id)
        if loaded and loaded.entry == entry and loaded.package.sha256 == package.sha256:
            return loaded
        await self.remove(candidate.id)
        registered = await register(config, candidate, package, self._host, self._processes)
        return _Ready(registered, package)

    async def _remove_others(self, every: list[Candidate], outcomes: list[Outcome]) -> None:
        """Removes the loaded plugins that are disabled, failed, or not named any more."""
        unchanged = {
            candidate.id
            for candidate, outcome in zip(every, outcomes, strict=True)
            if isinstance(outcome, _Loaded)
        }
        for plugin in self._loaded.keys() - unchanged:
            await self.remove(plugin)

    def _admitted(
        self, config: Config, every: list[Candidate], outcomes: list[Outcome]
    ) -> list[Outcome]:
        """Returns the outcomes; a plugin with an invalid part or a name in use fails."""
        tools, methods = {*self._reserved_tools, *self.tools}, set(self.methods)

        def admit(candidate: Candidate, outcome: Outcome) -> Outcome:
            if not isinstance(outcome, _Ready):
                return outcome
            registered = outcome.registered
            try:
                check_slot(config, candidate.id, registered)
                check(registered, tools, methods)
            except PluginError as error:
                drop(registered, outcome.package)
                return error
            tools.update(tool.spec.name for tool in registered.tools)
            methods.update(method.name for method in registered.methods)
            return outcome

        return [admit(*pair) for pair in zip(every, outcomes, strict=True)]

    async def _begin(self, every: list[Candidate], outcomes: list[Outcome]) -> None:
        """Calls `init` of the new plugins concurrently; a failed plugin is not loaded."""

        async def begin_plugin(number: int, candidate: Candidate, ready: _Ready) -> None:
            try:
                await begin(self.hooks.runner, candidate.id, ready.registered)
            except PluginError as error:
                await self._end(candidate.id, ready.registered, ready.package)
                outcomes[number] = error

        async with anyio.create_task_group() as group:
            for number, (candidate, outcome) in enumerate(zip(every, outcomes, strict=True)):
                if isinstance(outcome, _Ready) and outcome.registered.init is not None:
                    group.start_soon(begin_plugin, number, candidate, outcome)

    async def _report(self, config: Config, candidate: Candidate, outcome: Outcome) -> PluginReport:
        """Makes the registrations of a plugin effective; returns its report."""
        report = PluginReport(candidate.id, str(candidate.path), PluginStatus.DISABLED)
        if isinstance(outcome, _Loaded):
            return loaded_report(report, outcome.registered)
        if isinstance(outcome, str):
            return off(config, report, outcome)
        try:
            if isinstance(outcome, PluginError):
                raise outcome
            try:
                self._take(candidate.id, outcome, entry_of(config, candidate.id))
            except PluginError:
                await self._end(candidate.id, outcome.registered, outcome.package)
                raise
        except PluginError as error:
            logger.warning("plugin %s is not loaded: %s", candidate.id, error)
            return report.but(PluginStatus.FAILED, str(error), error.remedy)
        return loaded_report(report, outcome.registered)

    def _take(self, plugin: str, ready: _Ready, entry: PluginEntryConfig) -> None:
        """Makes all registrations of a plugin effective, or none.

        Raises:
            PluginError: the name of a command, an event or a channel is in use.
        """
        registered, runner = ready.registered, self.hooks.runner
        tools = [GuardedTool(runner, plugin, tool, self._is_chosen) for tool in registered.tools]
        methods = [guarded_method(runner, method) for method in registered.methods]
        commands = [guarded_command(runner, command) for command in registered.commands]
        routes = [guarded_route(runner, route) for route in registered.routes]
        provided = guard_providers(runner, plugin, registered)
        try:
            for command, _ in commands:
                self.commands.add(command)
            self._gateway.connect(plugin, registered)
        except ValueError as error:
            self.commands.remove(plugin)
            raise PluginError(str(error)) from error
        except PluginError:
            self.commands.remove(plugin)
            raise
        guards = [*provided, *(tool.guard for tool in tools)]
        guards += [guard for _, guard in chain(commands, methods, routes)]
        loaded = _Loaded(
            registered,
            entry,
            ready.package,
            guards,
            tools,
            [method for method, _ in methods],
            [route for route, _ in routes],
        )
        self._loaded[plugin] = loaded
        self.tools |= {tool.spec.name: tool for tool in tools}
        self.methods |= {method.name: method for method in loaded.methods}
        self.routes[plugin] = loaded.routes
        self.panels += registered.panels
        for hook, handler in registered.handlers:
            self.hooks.points[hook].add(handler)

    def _is_chosen(self, agent: AgentId, name: str) -> bool:
        """Returns True for a tool that is not optional, or that the agent's configuration names."""
        optional = any(name in loaded.registered.optional for loaded in self._loaded.values())
        return not optional or (self._config is not None and names_tool(self._config, agent, name))

    async def remove(self, plugin: str) -> None:
        """Removes all registrations of the plugin, then calls its `shutdown`.

        Running calls are not cancelled.
        """
        loaded = self._loaded.pop(plugin, None)
        if loaded is None:
            return
        self._gateway.disconnect(plugin, loaded.registered)
        self.commands.remove(plugin)
        for tool in loaded.tools:
            del self.tools[tool.spec.name]
        for method in loaded.methods:
            del self.methods[method.name]
        del self.routes[plugin]
        self.panels = [panel for panel in self.panels if panel.plugin != plugin]
        for point in self.hooks.points.values():
            point.remove(plugin)
        await self._end(plugin, loaded.registered, loaded.package)

    async def close(self) -> None:
        """Removes all plugins, when the gateway stops."""
        async with anyio.create_task_group() as group:
            for plugin in list(self._loaded):
                group.start_soon(self.remove, plugin)
        await self._processes.close(PROCESS_SECONDS)

    async def _end(self, plugin: str, registered: Registered, package: Package) -> None:
        """Calls `shutdown`, closes the tables, and removes the modules."""
        await end(self.hooks.runner, plugin, registered)
        drop(registered, package)


async def load_plugins(
    config: Config,
    hooks: Hooks,
    commands: CommandTable,
    reserved_tools: Collection[str],
    gateway: Gateway | None = None,
    host: PluginHost | None = None,
) -> Plugins:
    """Loads the plugins of the configuration and returns them; some may have failed."""
    plugins = Plugins(hooks, commands, reserved_tools, gateway, host)
    await plugins.apply(config)
    return plugins
