"""Runs the code of a plugin, and returns its registrations, none of which takes effect."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import anyio

from skerry.config.root import Config
from skerry.infra.supervise import Supervisor, in_daemon_thread
from skerry.model.errors import PluginError
from skerry.model.skill import Skill
from skerry.plugins.capabilities import check_capabilities
from skerry.plugins.discovery import Candidate, entry_of
from skerry.plugins.lifecycle import drop
from skerry.plugins.manifest import FILE, Manifest
from skerry.plugins.packages import Package
from skerry.plugins.skills import skills_of
from skerry.ports.plugins import PluginReport, PluginStatus
from skerry.sdk.api import PluginApi, sealed
from skerry.sdk.host import PluginHost
from skerry.sdk.registrations import Registered

logger = logging.getLogger(__name__)

REGISTER_SECONDS: Final = 10.0
DATA: Final = "plugin-data"
"""Folder in the state directory with a data folder for each plugin."""
Call = Callable[[], object] | None
_ENTRY_FUNCTIONS: Final = ("register", "activate")
"""Names of the function that gets the `PluginApi`; the first existing one is called."""


async def register(
    config: Config,
    candidate: Candidate,
    package: Package,
    host: PluginHost,
    supervisor: Supervisor | None = None,
) -> Registered:
    """Runs the code of a plugin; returns its registrations, which are not effective yet.

    Args:
        config: The configuration.
        candidate: The plugin.
        package: Its checked files.
        host: Parts of the gateway behind its `PluginApi`.
        supervisor: Runs its process, if it has one; None where no process may be started.

    Raises:
        PluginError: the plugin cannot be run, or raised an error.
    """
    manifest = candidate.manifest()
    api = _api(config, candidate, manifest, host)
    for folder in (*manifest.skills, *manifest.capabilities.get("skills", ())):
        api.register_skill_dir(candidate.path / folder)
    if manifest.process is not None:
        registered = await _registered_by_process(candidate, manifest, api, supervisor, host)
        registered.sha256 = package.sha256
        registered.skills = _skills(config, candidate, registered)
        return registered
    begin = end = None
    try:
        with anyio.move_on_after(REGISTER_SECONDS) as time:
            begin, end = await in_daemon_thread(
                partial(_run, candidate, package, api), f"register {candidate.id}"
            )
        if not time.cancelled_caught:
            check_capabilities(manifest, sealed(api))
            sealed(api).skills = _skills(config, candidate, sealed(api))
    except PluginError:
        drop(sealed(api), package)
        raise
    except Exception as error:
        drop(sealed(api), package)
        logger.exception("plugin %s", candidate.id)
        raise PluginError(f"It raised {type(error).__name__}: {error}") from error
    registered = sealed(api)
    registered.sha256, registered.shutdown = package.sha256, end
    registered.init = begin or registered.init
    if time.cancelled_caught:
        message = f"It did not register within {REGISTER_SECONDS:g} s."
        raise PluginError(message, "`register` must only register.")
    return registered


def _skills(config: Config, candidate: Candidate, registered: Registered) -> list[Skill]:
    """Returns the skills in the folders that a plugin registered."""
    if not registered.skill_dirs:
        return []
    root = candidate.path if candidate.path.is_dir() else candidate.path.parent
    return skills_of(candidate.id, root, registered.skill_dirs, config, os.environ)


def _api(config: Config, candidate: Candidate, manifest: Manifest, host: PluginHost) -> PluginApi:
    entry = entry_of(config, candidate.id)
    return PluginApi(
        candidate.id,
        manifest.defaults | entry.config,
        data=config.state_dir / DATA / candidate.id,
        allow_conversation=entry.hooks.allow_conversation_access,
        allow_prompt=entry.hooks.allow_prompt_injection,
        host=host,
    )


async def _registered_by_process(
    candidate: Candidate,
    manifest: Manifest,
    api: PluginApi,
    supervisor: Supervisor | None,
    host: PluginHost,
) -> Registered:
    """Starts the process of a plugin; returns its registrations.

    Raises:
        PluginError: the process cannot be started, or registers an invalid part.
    """
    if manifest.process is None or supervisor is None:
        raise PluginError("The plugin is a process, which only a gateway starts.")
    # Imported here: most gateways have no such plugin.
    from skerry.plugins.remote.start import begin_and_end, start  # noqa: PLC0415 - as above

    process = await start(candidate.path, manifest.process, api, supervisor, host.clock)
    registered = sealed(api)
    try:
        check_capabilities(manifest, registered)
    except PluginError:
        process.kill()
        raise
    begin_and_end(registered, process)
    return registered


def _run(candidate: Candidate, package: Package, api: PluginApi) -> tuple[Call, Call]:
    """Calls `register` of the plugin; returns its functions `init` and `shutdown`."""
    main = candidate.namespace(package)
    begin, end = (_function(main, name) for name in ("init", "shutdown"))
    entrances = [*_entry_functions(main), *_files(candidate.manifest(), package)]
    if not entrances and begin is None and not candidate.manifest().skills:
        raise PluginError("It has no function `register(api)`.")
    for entrance in entrances:
        entrance(api)
    return begin, end


def _function(namespace: Mapping[str, Any], name: str) -> Call:
    function = namespace.get(name)
    return function if callable(function) else None


def _entry_functions(namespace: Mapping[str, Any]) -> list[Callable[[PluginApi], object]]:
    """Returns the function `register` or `activate` of a module; empty when it has none."""
    functions = [namespace[name] for name in _ENTRY_FUNCTIONS if callable(namespace.get(name))]
    return functions[:1]


def _files(manifest: Manifest, package: Package) -> Iterator[Callable[[PluginApi], object]]:
    """Yields the function `register` of each file in `capabilities`.

    Raises:
        PluginError: a file is missing, or has no such function.
    """
    for kind, path in manifest.code_files:
        name = package.module_of(path)
        if name is None:
            message = f"capabilities.{kind} of {FILE} names {path!r}, which is no file of it."
            raise PluginError(message, "Name a .py file in its folder.")
        entrances = _entry_functions(vars(import_module(name)))
        if not entrances:
            raise PluginError(f"{path} of capabilities.{kind} has no function `register(api)`.")
        yield from entrances


def loaded_report(report: PluginReport, registered: Registered) -> PluginReport:
    """Returns the report of a loaded plugin, with its parts."""
    return PluginReport(
        report.id,
        report.path,
        PluginStatus.LOADED,
        hooks=tuple(hook for hook, _ in registered.handlers),
        tools=tuple(tool.spec.name for tool in registered.tools),
        commands=tuple(command.name for command in registered.commands),
        methods=tuple(method.name for method in registered.methods),
        services=tuple(name for name, _ in registered.services),
        events=tuple(event.name for event in registered.events),
        routes=tuple(f"/plugins/{report.id}/{route.path}" for route in registered.routes),
        panels=tuple(panel.title for panel in registered.panels),
        channels=tuple(f"{channel.channel}/{channel.account}" for channel in registered.channels),
        models=tuple(info.ref for provider in registered.models for info in provider.models),
        providers=(
            *(name for name in ("search", "embedding") if getattr(registered, name) is not None),
            *(api.name for api in registered.model_apis),
        ),
        skills=tuple(skill.name for skill in registered.skills),
        sha256=registered.sha256,
    )
