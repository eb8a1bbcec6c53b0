"""`skerry plugins install|info|enable|disable|remove|doctor`: changes and checks plugins."""

import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins

from skerry.cli.config_change import change
from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, plain, show, show_json, styled
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.plugins.discovery import BUNDLED, EXTENSIONS, Candidate, candidates
from skerry.plugins.inspecting import inspect
from skerry.plugins.installing import Installed, install, remove
from skerry.plugins.manifest import Manifest
from skerry.plugins.registering import DATA
from skerry.ports.plugins import PluginReport, PluginStatus

ALIASES: Final = {"@mysten-incubation/oc-memwal": "memory-memwal"}
"""Names of OpenClaw's plugins, each with the bundled plugin that replaces it."""
MEMORY: Final = "plugins.slots.memory"
DEFAULT_MEMORY: Final = "memory-core"


def run(arguments: Namespace) -> int:
    """Runs the command; returns the exit code."""
    config = load_good(os.environ, fetch=False).config
    match arguments.action:
        case "install":
            return _install(config, arguments)
        case "doctor":
            return _doctor(config, as_json=arguments.json)
    candidate = _candidate(config, arguments.name)
    match arguments.action:
        case "info":
            return _info(config, candidate, as_json=arguments.json)
        case "enable":
            return _enable(candidate, arguments)
        case "disable":
            values = _without_slot(config, candidate.id) | {_key(candidate.id, "enabled"): False}
            return _changed(candidate.id, values, arguments)
        case _:
            return _remove(config, candidate, arguments)


def _candidate(config: Config, name: str) -> Candidate:
    plugin = ALIASES.get(name, name)
    every = candidates(config, installed=True)
    match = next((candidate for candidate in every if candidate.id == plugin), None)
    if match is None:
        ids = ", ".join(sorted({candidate.id for candidate in every}))
        raise FailedError(f"Unknown plugin {name!r}.", f"Plugins: {ids}.")
    return match


def _changed(plugin: str, values: dict[str, Any], arguments: Namespace, **extra: Any) -> int:
    """Changes the configuration; with `--json` the changed keys are printed as an object."""
    code = change(values, quiet=arguments.json) if values else 0
    if code == 0 and arguments.json:
        show_json({"ok": True, "id": plugin, "changed": values, **extra})
    return code


def _enable(candidate: Candidate, arguments: Namespace) -> int:
    values: dict[str, Any] = {_key(candidate.id, "enabled"): True}
    if "memory" in candidate.manifest().slots:
        values[MEMORY] = candidate.id
    return _changed(candidate.id, values, arguments)


def _install(config: Config, arguments: Namespace) -> int:
    name = arguments.source
    if name in ALIASES or name in BUNDLED:
        plugin = ALIASES.get(name, name)
        notice(f"{name} is {plugin}, which is bundled with this program, so nothing is downloaded.")
        code = _enable(_candidate(config, plugin), arguments)
        if code == 0:
            notice("It needs a server and a key. Create both here: skerry relayer init --connect")
        return code
    if name.startswith("@") or not Path(name).exists():
        raise FailedError(
            f"{name} is not a folder or wheel on this machine; plugins are not downloaded.",
            "Download the plugin, then pass its folder or .whl file.",
        )
    installed = install(Path(name), config.state_dir / EXTENSIONS)
    permissions = _permissions(installed.id, installed.manifest)
    for line in permissions:
        notice(line)
    if not (arguments.yes or _confirmed(installed)):
        remove(config.state_dir / EXTENSIONS, installed.id)
        raise FailedError(f"{installed.id} was not installed.", "Pass --yes to install it.")
    values: dict[str, Any] = {
        _key(installed.id, "enabled"): True,
        _key(installed.id, "sha256"): installed.sha256,
    }
    if "memory" in installed.manifest.slots:
        values[MEMORY] = installed.id
    extra = {"path": str(installed.path), "sha256": installed.sha256, "permissions": permissions}
    code = _changed(installed.id, values, arguments, **extra)
    if code:
        remove(config.state_dir / EXTENSIONS, installed.id)
    return code


def _permissions(plugin: str, manifest: Manifest) -> list[str]:
    """Describes the rights of a plugin and the claims of its manifest."""
    lines = [f"{plugin} runs inside the gateway, with all rights of the gateway."]
    if manifest.process is not None:
        command = one_line(" ".join(manifest.process.command))
        lines = [f"{plugin} is a program that runs with all your rights: {command}"]
    if manifest.process is not None and manifest.process.env:
        lines.append(f"It receives the variables: {', '.join(manifest.process.env)}.")
    if manifest.capabilities:
        lines.append(f"Its manifest lists: {', '.join(manifest.capabilities)}.")
    if manifest.slots:
        lines.append(f"It fills the slots: {', '.join(manifest.slots)}.")
    if manifest.cli:
        lines.append(
            f"It adds the commands: {', '.join(f'skerry {name}' for name in manifest.cli)}."
        )
    if manifest.requires:
        lines.append(f"It requires: {one_line(str(dict(manifest.requires)))}.")
    return lines


def _confirmed(installed: Installed) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"Load {installed.id} into the gateway? [y/N] ").strip().lower() in {"y", "yes"}


def _info(config: Config, candidate: Candidate, *, as_json: bool) -> int:
    manifest = candidate.manifest()
    report = next(report for report in inspect(config) if report.id == candidate.id)
    entry = config.plugins.entries.get(candidate.id)
    status = "loadable" if report.status is PluginStatus.LOADED else report.status.value
    if as_json:
        show_json(
            {
                **to_builtins(report),
                "status": status,
                "origin": candidate.origin,
                "manifest": to_builtins(manifest),
                "pinned": entry.sha256 if entry else None,
            }
        )
        return 0
    rows = (
        ("id", candidate.id),
        ("name", manifest.name),
        ("version", manifest.version),
        ("description", manifest.description),
        ("status", status),
        ("reason", report.reason),
        ("remedy", report.remedy),
        ("from", f"{candidate.origin} {candidate.path}"),
        ("slots", ", ".join(manifest.slots)),
        ("commands", ", ".join(manifest.cli)),
        ("requires", ", ".join(f"{key} {value}" for key, value in manifest.requires.items())),
        ("pinned", (entry.sha256 or "") if entry else ""),
        ("page", manifest.homepage),
    )
    for label, text in rows:
        if text:
            show(f"{label:13} {one_line(text)}")
    if status == "loadable":
        notice("This command runs no plugin. State in a running gateway: skerry plugins list")
    return 0


def _doctor(config: Config, *, as_json: bool) -> int:
    """Prints the plugins that cannot be loaded, checked without running them."""
    reports = inspect(config)
    failed = [report for report in reports if report.status is PluginStatus.FAILED]
    if as_json:
        show_json([to_builtins(report) for report in failed])
        return 1 if failed else 0
    if not failed:
        named = sum(report.status is PluginStatus.LOADED for report in reports)
        show(f"{named} plugins can be loaded. State in a running gateway: skerry plugins list")
    for report in failed:
        _show_failed(report)
    return 1 if failed else 0


def _show_failed(report: PluginReport) -> None:
    show(f"{styled('failed', 'red')}   {one_line(report.id)}  {one_line(report.path)}")
    for line in plain(report.reason).splitlines():
        show(f"{'':8} {line}")
    if report.remedy:
        show(f"{'':8} Try: {one_line(report.remedy)}")


def _remove(config: Config, candidate: Candidate, arguments: Namespace) -> int:
    plugin = candidate.id
    if not candidate.folder:
        raise FailedError(
            f"{plugin} is not in {config.state_dir / EXTENSIONS}, so it is not installed.",
            f"Disable it: skerry plugins disable {plugin}",
        )
    values: dict[str, Any] = _without_slot(config, plugin)
    entries = {name: entry for name, entry in config.plugins.entries.items() if name == plugin}
    if entries:
        values[_key(plugin, "enabled")] = False
        values[_key(plugin, "sha256")] = None
    data = config.state_dir / DATA / plugin
    stays = data.is_dir() and not arguments.data
    code = _changed(plugin, values, arguments, data=str(data) if stays else None)
    if code == 0:
        remove(config.state_dir / EXTENSIONS, plugin)
        if stays:
            notice(f"Its data remains in {data}; pass --data to remove it too.")
        elif data.is_dir():
            shutil.rmtree(data)
    return code


def _without_slot(config: Config, plugin: str) -> dict[str, Any]:
    """Returns the change that resets the memory slot, if the plugin fills it."""
    return {MEMORY: DEFAULT_MEMORY} if config.plugins.slots.memory == plugin else {}


def _key(plugin: str, name: str) -> str:
    return f"plugins.entries.{plugin}.{name}"
