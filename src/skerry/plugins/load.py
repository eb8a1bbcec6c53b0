"""Loads the plugins that the configuration names.

A file is checked, run in a thread with a deadline, and what it registered is taken as a whole or
not at all. One that fails is reported and changes nothing for the others.
"""

import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.commands.table import CommandTable
from skerry.config.plugins import ID_PATTERN, PluginEntryConfig
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import HandlerReport
from skerry.infra.supervise import in_daemon_thread
from skerry.model.errors import PluginError
from skerry.plugins.guarded import GuardedCall, GuardedTool, guarded_command, guarded_method
from skerry.plugins.packages import Package, read_plugin
from skerry.plugins.registered import check
from skerry.ports.plugins import PluginReport, PluginStatus
from skerry.ports.tool import Tool
from skerry.sdk.api import PluginApi, Registered, sealed
from skerry.sdk.methods import GatewayMethod

logger = logging.getLogger(__name__)

REGISTER_SECONDS: Final = 10.0
DATA: Final = "plugin-data"
"""Folder in the state directory, with a folder for the files of each plugin."""


@dataclass(slots=True)
class Plugins:
    """Every plugin that the configuration names, and what the loaded ones brought."""

    hooks: Hooks
    commands: CommandTable
    tools: dict[str, Tool] = field(default_factory=dict)
    methods: dict[str, GatewayMethod] = field(default_factory=dict)
    services: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = field(
        default_factory=list
    )
    reports: list[PluginReport] = field(default_factory=list)
    _guards: list[GuardedCall] = field(default_factory=list)

    def handlers(self) -> list[HandlerReport]:
        """Returns how each function of a plugin does, whatever it is called for."""
        return [*self.hooks.report(), *(guard.report() for guard in self._guards)]

    def changed(self, report: PluginReport) -> bool:
        """Returns whether the files of a loaded plugin are no longer those that were loaded."""
        if report.status is not PluginStatus.LOADED:
            return False
        try:
            read_plugin(Path(report.path), report.sha256, ())
        except PluginError:
            return True
        return False

    def take(self, plugin: str, registered: Registered, taken: Collection[str]) -> None:
        """Lets everything that a plugin registered take part, or nothing of it.

        Raises:
            PluginError: a name is wrong or taken, or something is not what it must be.
        """
        check(registered, {*taken, *self.tools}, self.methods)
        tools = [GuardedTool(self.hooks.runner, plugin, tool) for tool in registered.tools]
        methods = [guarded_method(self.hooks.runner, method) for method in registered.methods]
        commands = [guarded_command(self.hooks.runner, one) for one in registered.commands]
        try:
            for command, _ in commands:
                self.commands.add(command)
        except ValueError as error:
            self.commands.remove(plugin)
            raise PluginError(str(error)) from error
        self.tools |= {tool.spec.name: tool for tool in tools}
        self.methods |= {one.name: one for one, _ in methods}
        self.services += registered.services
        self._guards += [tool.guard for tool in tools]
        self._guards += [guard for _, guard in (*commands, *methods)]
        for hook, handler in registered.handlers:
            self.hooks.points[hook].add(handler)


async def load_plugins(
    config: Config, hooks: Hooks, commands: CommandTable, taken: Collection[str]
) -> Plugins:
    """Returns the plugins of the configuration, loaded as far as they let themselves be loaded.

    Args:
        config: Which files, and what each may do.
        hooks: Gets their handlers.
        commands: Gets their commands.
        taken: Names of tools that are no plugin's.

    """
    plugins = Plugins(hooks, commands)
    paths = list(_paths(config))
    outcomes: list[Registered | PluginError | str] = [""] * len(paths)

    async def register(number: int, path: Path) -> None:
        try:
            outcomes[number] = await _registered(config, path, hooks)
        except PluginError as error:
            outcomes[number] = error

    async with anyio.create_task_group() as group:  # all at once: one that hangs delays no other
        seen: set[str] = set()
        for number, path in enumerate(paths):
            try:
                reason = _why_not(config, path.stem, seen)
            except PluginError as error:
                outcomes[number] = error
            else:
                if reason is None:
                    group.start_soon(register, number, path)
                else:
                    outcomes[number] = reason
            seen.add(path.stem)
    for path, outcome in zip(paths, outcomes, strict=True):
        plugins.reports.append(_taken(plugins, path, outcome, taken))
    return plugins


def _taken(
    plugins: Plugins,
    path: Path,
    outcome: Registered | PluginError | str,
    taken: Collection[str],
) -> PluginReport:
    """Lets a plugin that registered take part; returns what became of it."""
    report = PluginReport(path.stem, str(path), PluginStatus.DISABLED)
    if isinstance(outcome, str):
        return report.but(PluginStatus.DISABLED, outcome)
    try:
        if isinstance(outcome, PluginError):
            raise outcome
        plugins.take(path.stem, outcome, taken)
    except PluginError as error:
        logger.warning("plugin %s is not loaded: %s", path.stem, error)
        return report.but(PluginStatus.FAILED, str(error), error.remedy)
    return _loaded(report, outcome)


def inspect(config: Config) -> list[PluginReport]:
    """Reports the state that each plugin would have, as far as possible without running it."""
    reports: list[PluginReport] = []
    seen: set[str] = set()
    for path in _paths(config):
        report = PluginReport(path.stem, str(path), PluginStatus.DISABLED)
        try:
            reason = _why_not(config, path.stem, seen)
            if reason is None:
                _package(config, path).compile()
                report = report.but(PluginStatus.LOADED, "")
            else:
                report = report.but(PluginStatus.DISABLED, reason)
        except PluginError as error:
            report = report.but(PluginStatus.FAILED, str(error), error.remedy)
        except (SyntaxError, ValueError) as error:
            report = report.but(
                PluginStatus.FAILED, f"{path} is not Python: {error}", "Correct it."
            )
        seen.add(path.stem)
        reports.append(report)
    return reports


def _paths(config: Config) -> Iterator[Path]:
    for path in config.plugins.load.paths:
        yield config.path.parent / path.expanduser()


def _why_not(config: Config, plugin: str, seen: Collection[str]) -> str | None:
    """Returns why the plugin is not to be loaded, or None.

    Raises:
        PluginError: it has no usable id.
    """
    if re.fullmatch(ID_PATTERN, plugin) is None or plugin in seen:
        raise PluginError(
            f"{plugin!r} is not a valid id, or another plugin has it.", "Rename the file."
        )
    section = config.plugins
    if plugin in section.deny:
        return "plugins.deny lists it."
    if section.allow and plugin not in section.allow:
        return "plugins.allow does not name it."
    if not _entry(config, plugin).enabled:
        return f"plugins.entries.{plugin}.enabled is false."
    return None if section.enabled else "plugins.enabled is false."


def _entry(config: Config, plugin: str) -> PluginEntryConfig:
    return config.plugins.entries.get(plugin) or PluginEntryConfig()


def _package(config: Config, path: Path) -> Package:
    workspaces = [config.workspace(agent) for agent in config.agents.ids]
    return read_plugin(path, _entry(config, path.stem).sha256, workspaces)


async def _registered(config: Config, path: Path, hooks: Hooks) -> Registered:
    entry = _entry(config, path.stem)
    package = _package(config, path)
    api = PluginApi(
        path.stem,
        tuple(hooks.points),
        entry.config,
        data=config.state_dir / DATA / path.stem,
        allow_conversation=entry.hooks.allow_conversation_access,
        allow_prompt=entry.hooks.allow_prompt_injection,
    )
    try:
        with anyio.move_on_after(REGISTER_SECONDS) as time:
            await in_daemon_thread(partial(_run, package, api), f"register {path.stem}")
    except PluginError:
        package.remove()
        raise
    except Exception as error:
        package.remove()
        logger.exception("plugin %s", path.stem)
        raise PluginError(f"It raised {type(error).__name__}: {error}") from error
    registered = sealed(api)
    registered.sha256 = package.sha256
    if time.cancelled_caught:
        message = f"It did not register within {REGISTER_SECONDS:g} s."
        raise PluginError(message, "`register` must only register.")
    return registered


def _run(package: Package, api: PluginApi) -> None:
    register: Any = vars(package.install()).get("register")
    if not callable(register):
        raise PluginError("It has no function `register(api)`.")
    register(api)


def _loaded(report: PluginReport, registered: Registered) -> PluginReport:
    return PluginReport(
        report.id,
        report.path,
        PluginStatus.LOADED,
        hooks=tuple(hook for hook, _ in registered.handlers),
        tools=tuple(tool.spec.name for tool in registered.tools),
        commands=tuple(command.name for command in registered.commands),
        methods=tuple(method.name for method in registered.methods),
        services=tuple(name for name, _ in registered.services),
        sha256=registered.sha256,
    )
