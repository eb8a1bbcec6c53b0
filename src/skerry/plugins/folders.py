"""Finds, checks and loads hooks: bundled ones, and folders with a HOOK.md and a handler.py.

Of hooks with one name the last one wins: bundled, `hooks.internal.load.extraDirs`, `hooks` in the
state directory, `hooks` in a workspace. A hook is loaded only when the configuration enables it.
Its code is checked as that of a plugin, and called with the same deadlines and counts.
"""

import inspect
import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from types import ModuleType
from typing import Any, Final

import anyio

from skerry.config.hooks import BOOT_MD, HookEntryConfig
from skerry.config.plugins import ID_PATTERN
from skerry.config.root import Config
from skerry.hooks.events import HookEvent
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.infra.clock import Clock
from skerry.infra.supervise import in_daemon_thread
from skerry.model.errors import PluginError
from skerry.model.ids import AgentId
from skerry.plugins.authors import HookFile, author
from skerry.plugins.bundled import BUNDLED
from skerry.plugins.hookmd import EVENTS, DeclaredHook, declared
from skerry.plugins.source_check import MAX_BYTES, PluginSource, read_source
from skerry.policy.file_records import FileRecords
from skerry.workspace.front_matter import MAX_HEAD, missing

logger = logging.getLogger(__name__)

HOOK_MD: Final = "HOOK.md"
HANDLER: Final = "handler.py"
LOAD_SECONDS: Final = 10.0
MAX_FOLDERS: Final = 100
"""Limit of folders that are read in one directory."""


class HookStatus(StrEnum):
    """State of a hook after the start."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    MISSING = "missing"
    """A requirement is unmet on this machine."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HookReport:
    """State of one hook."""

    name: str
    description: str
    place: str
    """`bundled`, `extra`, `managed` or `workspace`."""
    path: str
    events: tuple[str, ...]
    status: HookStatus
    reason: str = ""
    remedy: str = ""
    emoji: str = ""
    homepage: str = ""
    sha256: str = ""
    """Hash of its handler.py; empty when it cannot be read."""
    files: tuple[HookFile, ...] = ()
    """Its files with their authors; empty for bundled hooks."""

    def failed(self, error: PluginError) -> "HookReport":
        """Returns the report with status FAILED, and the reason and remedy of the error."""
        return replace(self, status=HookStatus.FAILED, reason=str(error), remedy=error.remedy)


@dataclass(frozen=True, slots=True)
class FoundHook:
    """A hook that was found, with the parts for loading it."""

    report: HookReport
    about: DeclaredHook | None = None
    head: bytes = b""
    """Content of its HOOK.md."""
    source: PluginSource | None = None
    handle: Callable[[HookEvent], Any] | None = None


def find_hooks(
    config: Config, environ: Mapping[str, str], records: FileRecords, *, noting: bool = False
) -> list[FoundHook]:
    """Returns all hooks sorted by name, with the status that a start would give them; runs none.

    A hook fails when a run that had read untrusted text wrote one of its files. With `noting`,
    files of enabled hooks without a record get one.
    """
    hooks = {entry.report.name: entry for entry in _bundled_hooks(config)}
    for source, directory in _directories(config):
        for folder in _folders(directory):
            hook = _folder(config, environ, source, folder)
            hook = _judged(config, hook, records, noting=noting)
            hooks[hook.report.name] = hook
    return sorted(hooks.values(), key=lambda hook: hook.report.name)


async def load_hooks(
    config: Config,
    hooks: Hooks,
    environ: Mapping[str, str],
    clock: Clock,
    records: FileRecords,
) -> list[HookReport]:
    """Loads and registers the enabled hooks; returns a report of each hook."""
    reports = []
    for find_hook in find_hooks(config, environ, records, noting=True):
        report = find_hook.report
        if report.status is HookStatus.ENABLED and report.name != BOOT_MD:
            try:
                handle = find_hook.handle or await _loaded(find_hook)
                _register(config, hooks, clock, report, handle)
            except PluginError as error:
                report = report.failed(error)
        if report.status in {HookStatus.FAILED, HookStatus.MISSING}:
            logger.warning("hook %s is not loaded: %s", report.name, report.reason)
        reports.append(report)
    return reports


def _bundled_hooks(config: Config) -> list[FoundHook]:
    text = "follows BOOT.md of a workspace at each start of the gateway"
    boot = HookReport(BOOT_MD, text, "bundled", "", ("gateway:startup",), HookStatus.ENABLED)
    all_of_them = [FoundHook(boot)] + [
        FoundHook(
            HookReport(
                bundled.name, bundled.description, "bundled", "", bundled.events, HookStatus.ENABLED
            ),
            handle=bundled.handle,
        )
        for bundled in BUNDLED
    ]
    return [replace(hook, report=_switched(config, hook.report)) for hook in all_of_them]


def _switched(config: Config, report: HookReport) -> HookReport:
    """Returns the report; with status DISABLED unless the configuration enables the hook."""
    section = config.hooks.internal
    if section.takes_part(report.name):
        return report
    reason = "" if section.enabled else "hooks.internal.enabled is false."
    remedy = f"To switch it on: skerry hooks enable {report.name}"
    return replace(report, status=HookStatus.DISABLED, reason=reason, remedy=remedy)


def _directories(config: Config) -> list[tuple[str, Path]]:
    home = config.path.parent
    extra = [home / extra_dir.expanduser() for extra_dir in config.hooks.internal.load.extra_dirs]
    workspaces = [config.workspace(agent) for agent in config.agents.ids]
    return [
        *(("extra", directory) for directory in extra),
        ("managed", config.state_dir / "hooks"),
        *(("workspace", workspace / "hooks") for workspace in workspaces),
    ]


def _folders(directory: Path) -> list[Path]:
    try:
        inside = sorted(directory.iterdir())
    except OSError:
        return []
    return [folder for folder in inside if (folder / HOOK_MD).is_file()][:MAX_FOLDERS]


def _folder(
    config: Config, environ: Mapping[str, str], source_kind: str, folder: Path
) -> FoundHook:
    name = folder.name
    report = HookReport(name, "", source_kind, str(folder), (), HookStatus.ENABLED)
    workspaces = [config.workspace(agent) for agent in config.agents.ids]
    try:
        head = _head(folder / HOOK_MD)
        about = declared(_text(head), name)
    except PluginError as error:
        return FoundHook(report.failed(error))
    entry = config.hooks.internal.entries.get(about.name) or HookEntryConfig()
    report = replace(
        report,
        name=about.name,
        description=about.description,
        events=about.about.events,
        emoji=about.about.emoji,
        homepage=about.homepage,
    )
    switched = _switched(config, report)
    path = folder / HANDLER
    setting = f"hooks.internal.entries.{about.name}.sha256"
    try:
        _check(about.name, path)
        source = read_source(path, entry.sha256, workspaces, setting)
        read_source(folder / HOOK_MD, sha256(head).hexdigest(), ())  # only the owner can write it
    except PluginError as error:
        if switched.status is HookStatus.DISABLED:
            return FoundHook(switched)
        return FoundHook(report.failed(error))
    switched = replace(switched, sha256=source.sha256)
    lacks = missing(about.about, config, environ)
    if lacks and switched.status is HookStatus.ENABLED:
        reason = f"It needs {', '.join(lacks)}."
        switched = replace(switched, status=HookStatus.MISSING, reason=reason, remedy="Add it.")
    return FoundHook(switched, about, head, source)


def _judged(config: Config, hook: FoundHook, records: FileRecords, *, noting: bool) -> FoundHook:
    """Returns a hook with the authors of its files; as failed when a file is not trusted.

    A file is not trusted when a run that had read untrusted text wrote its content. The owner may
    write it again, or pin its hash.
    """
    report = hook.report
    entry = config.hooks.internal.entries.get(report.name)
    is_loaded = noting and report.status is HookStatus.ENABLED
    read = {HOOK_MD: hook.head, HANDLER: hook.source.code if hook.source else b""}
    pins = {HANDLER: entry.sha256 if entry else None}
    files = []
    for name, checked in read.items():
        path = Path(report.path).resolve() / name
        data = checked or _peek(path)
        if data:  # otherwise the status has the reason
            files.append(author(path, data, records, pins.get(name), is_loaded=is_loaded))
    report = replace(report, files=tuple(files))
    doubted = next((file for file in files if file.doubt), None)
    if report.status is HookStatus.ENABLED and doubted is not None:
        message = f"{doubted.name} does not count as yours: {doubted.doubt}."
        remedy = "Read it, and write the parts that you want yourself."
        return FoundHook(report.failed(PluginError(message, remedy)))
    return replace(hook, report=report)


def _check(name: str, path: Path) -> None:
    """Refuses an invalid or bundled name, and a handler outside of its folder."""
    if re.fullmatch(ID_PATTERN, name) is None or name in {
        BOOT_MD,
        *(bundled.name for bundled in BUNDLED),
    }:
        raise PluginError(
            f"{name!r} is not a valid hook name, or a bundled hook has it.", "Rename it."
        )
    if path.resolve().parent != path.parent.resolve():
        raise PluginError(f"{path} leads out of its folder.", "Put the file there.")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_HEAD + 1)
    except OSError as error:
        raise PluginError(f"{path} cannot be read: {error}.") from error
    if len(data) > MAX_HEAD:
        raise PluginError(f"{path} has more than {MAX_HEAD} bytes.", "Shorten it.")
    return data


def _peek(path: Path) -> bytes:
    """Reads a file that is not loaded, to determine its author."""
    try:
        status = path.lstat()
        return path.read_bytes() if S_ISREG(status.st_mode) and status.st_size < MAX_BYTES else b""
    except OSError:
        return b""


def _text(head: bytes) -> str:
    try:
        return head.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise PluginError(f"{HOOK_MD} is not UTF-8 text: {error}.") from error


async def _loaded(hook: FoundHook) -> Callable[[HookEvent], Any]:
    if hook.source is None or hook.about is None:
        raise PluginError("It has no handler.")
    module = ModuleType(f"skerry_hook_{hook.report.name.replace('-', '_')}")
    module.__file__ = str(hook.source.path)
    run = partial(_run, hook.source, module, hook.about.about.export)
    name = hook.report.name
    try:
        with anyio.move_on_after(LOAD_SECONDS):
            handle: Callable[[HookEvent], Any] = await in_daemon_thread(run, f"hook {name}")
            return handle
    except PluginError:
        raise
    except Exception as error:
        logger.exception("hook %s", name)
        raise PluginError(f"It raised {type(error).__name__}: {error}") from error
    raise PluginError(
        f"It did not load within {LOAD_SECONDS:g} s.", "handler.py must only define functions."
    )


def _run(source: PluginSource, module: ModuleType, export: str) -> Callable[[HookEvent], Any]:
    sys.modules[module.__name__] = module  # dataclasses and pydantic look their modules up
    exec(compile(source.code, str(source.path), "exec"), vars(module))  # noqa: S102 - it is what a hook is
    handle = vars(module).get(export)
    if not callable(handle):
        raise PluginError(f"{HANDLER} has no function `{export}(event)`.")
    call: Callable[[HookEvent], Any] = handle
    return call


def _register(
    config: Config,
    hooks: Hooks,
    clock: Clock,
    report: HookReport,
    handle: Callable[[HookEvent], Any],
) -> None:
    handled: dict[str, set[str]] = {}
    for event in report.events:
        handled.setdefault(EVENTS[event], set()).add(event)
    for point, events in handled.items():
        adapter = _Adapter(config, clock, point, frozenset(events), handle)
        call = adapter.call_async if inspect.iscoroutinefunction(handle) else adapter.call
        hooks.points[point].add(Handler(f"hook {report.name}", call))


@dataclass(frozen=True, slots=True)
class _Adapter:
    """Converts a payload into an event, and calls the handler of a hook that lists the event."""

    config: Config
    clock: Clock
    point: str
    events: frozenset[str]
    handle: Callable[[HookEvent], Any]

    def call(self, payload: Any) -> Any:
        event = self._event(payload)
        return None if event is None else self.handle(event)

    async def call_async(self, payload: Any) -> Any:
        event = self._event(payload)
        return None if event is None else await self.handle(event)

    def _event(self, payload: Any) -> HookEvent | None:
        name = self._name(payload)
        if name not in self.events and name.partition(":")[0] not in self.events:
            return None
        kind, _, action = name.partition(":")
        agent = _agent(payload)
        return HookEvent(
            type=kind,
            action=action,
            timestamp=self.clock.now_ms(),
            payload=payload,
            workspace=self.config.workspace(agent) if agent is not None else None,
            state_dir=self.config.state_dir,
        )

    def _name(self, payload: Any) -> str:
        if self.point == "command":
            return f"command:{payload.name}"
        return next(event for event, point in EVENTS.items() if point == self.point)


def _agent(payload: Any) -> AgentId | None:
    """Returns the agent of a payload; None for a payload without one."""
    fields: tuple[str, ...] = payload.__struct_fields__
    if "agent_id" in fields:
        agent: AgentId = payload.agent_id
        return agent
    if "context" in fields:
        inner: AgentId = payload.context.agent_id
        return inner
    return None
