"""Content of an OpenClaw home that is not imported, each with its name and the reason."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from skerry.config.paths import lookup
from skerry.features.openclaw.mapping import foreign_hooks
from skerry.features.openclaw.report import NotImported, Report
from skerry.infra.channels import PLATFORMS
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import AgentId, agent_id
from skerry.store import openclaw_databases as database

_HANDLED: Final = frozenset({"openclaw.json", "agents", "exec-approvals.json"})
_EARLIER: Final = "openclaw.json."
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file that is searched for names."""
_REASONS: Final = {
    ".env": "variables of the environment; set those that you need for the gateway",
    "browser": "profiles of a browser; sign in again in the browser of this gateway",
    "canvas": "pages for nodes; copy those that you need to canvas/ of the workspace",
    "credentials": "logins and pairings of channels; set each up with skerry channels add",
    "cron": "its jobs are imported switched off, the log of their runs is not",
    "delivery-queue": "messages that the other gateway has not delivered",
    "devices": "clients of the other gateway; connect each to this one and approve it",
    "extensions": "plugins of OpenClaw are programs of Node",
    "hooks": "hooks of OpenClaw are programs of Node",
    "identity": "keys of a device; this gateway has its own",
    "logs": "logs",
    "media": "files received over channels",
    "memory": "an index, which is rebuilt from the files in the workspaces",
    "sandboxes": "copies for sandboxes",
    "skills": "skills for all agents; read each that you need, then copy it to ~/.skerry/skills",
    "state": "internal state of the other gateway",
    "subagents": "internal state of the other gateway",
    "update-check.json": "internal state of the other gateway",
}


def is_home(home: Path) -> bool:
    """Returns true when the directory looks like a home of OpenClaw."""
    if (home / "openclaw.json").is_file() or (home / "agents").is_dir():
        return True
    return any(workspaces(home))


def workspaces(home: Path) -> Iterator[Path]:
    """Yields the folders of the home whose names are those of workspaces."""
    for path in sorted(home.iterdir()) if home.is_dir() else ():
        if path.is_dir() and (path.name == "workspace" or path.name.startswith("workspace-")):
            yield path


def agents(home: Path) -> list[tuple[AgentId, Path]]:
    """Returns the folder of each agent that has one."""
    folder = home / "agents"
    folders = sorted(folder.iterdir()) if folder.is_dir() and inside(home, folder) else []
    return [
        (agent_id(path.name), path) for path in folders if path.is_dir() and not path.is_symlink()
    ]


def inside(home: Path, path: Path) -> bool:
    """Returns true when the path, after links are followed, is in the home."""
    return path.resolve().is_relative_to(home.resolve())


def not_imported(home: Path, foreign: Mapping[str, Any]) -> Iterator[NotImported]:
    """Yields the parts of the installation that this gateway does not support."""
    if names := _keys(foreign, "channels", except_for=("defaults", "modelByChannel")):
        yield NotImported("Channels", names, _channels(names))
    if names := tuple(dict.fromkeys(_skills(home))):
        yield NotImported(
            "Skills",
            names,
            "Read each that you need, then copy its folder: skerry skills check.",
        )
    hooks = dict.fromkeys([*foreign_hooks(foreign), *_folders(home / "hooks")])
    if hooks:
        yield NotImported("Hooks", tuple(hooks), "Hooks of OpenClaw are programs of Node.")
    plugins = dict.fromkeys([*_plugins(foreign), *_folders(home / "extensions")])
    if plugins:
        yield NotImported("Plugins", tuple(plugins), "Plugins of OpenClaw are programs of Node.")
    if names := tuple(_devices(home)):
        yield NotImported(
            "Paired devices", names, "Connect each to this gateway and approve it: skerry devices."
        )


def name_the_rest(home: Path, imported: set[Path], report: Report) -> None:
    """Reports every entry of the home that is not imported."""
    earlier = 0
    for path in sorted(home.iterdir()):
        if path.name in _HANDLED or path in imported:
            continue
        if path.name.startswith(_EARLIER):
            earlier += 1
        elif path in set(workspaces(home)):
            report.skip(path.name, "no agent of the configuration has this workspace")
        else:
            report.skip(path.name, _REASONS.get(path.name, "this version does not use it"))
    if earlier:
        report.skip(
            f"{earlier} earlier copies of openclaw.json", "only the present one is imported"
        )


def _keys(tree: Mapping[str, Any], *keys: str, except_for: tuple[str, ...] = ()) -> tuple[str, ...]:
    value = lookup(tree, keys)
    return (
        tuple(name for name in value if name not in except_for) if isinstance(value, dict) else ()
    )


def jobs(home: Path, report: Report) -> list[Any]:
    """Returns the scheduled jobs: of the state database (2026.9), then of the file (2026.2)."""
    file = home / "state" / database.STATE_FILE
    stored: list[Any] = []
    if inside(home, file) and file.is_file():
        try:
            with database.opened(file) as opened:
                stored += database.jobs(opened)
        except (OSError, sqlite3.Error) as error:
            report.skip(str(file), f"its scheduled jobs cannot be read: {error}")
    content = _json(home, home / "cron" / "jobs.json")
    listed = content.get("jobs") if isinstance(content, dict) else content
    return [*stored, *listed] if isinstance(listed, list) else stored


def _channels(names: Iterable[str]) -> str:
    """Returns the command that connects each platform, and the platforms without an adapter."""
    supported = [name for name in names if name in PLATFORMS]
    unsupported = [name for name in names if name not in PLATFORMS]
    commands = [f"skerry channels add {name}" for name in supported]
    texts = []
    if commands:
        texts.append("Their settings are imported with your consent to each key, listed below.")
        texts.append("Stop the other gateway first: two programs cannot use one account.")
        texts.append(f"To connect one anew: {', '.join(commands)}.")
    if unsupported:
        texts.append(f"This version has no adapter for {', '.join(unsupported)}.")
    return " ".join(texts)


def _skills(home: Path) -> Iterator[str]:
    for folder in (home, *workspaces(home)):
        if inside(home, folder):
            yield from _folders(folder / "skills", marker="SKILL.md")


def _plugins(foreign: Mapping[str, Any]) -> Iterator[str]:
    entries = lookup(foreign, ("plugins", "entries"))
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not (isinstance(entry, dict) and entry.get("enabled") is False):
            yield name


def _devices(home: Path) -> Iterator[str]:
    paired = _json(home, home / "devices" / "paired.json")
    for name, device in paired.items() if isinstance(paired, dict) else ():
        about = device if isinstance(device, dict) else {}
        yield str(about.get("displayName") or about.get("clientId") or name[:12])


def _folders(folder: Path, marker: str = "") -> Iterator[str]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.name.startswith(".") and (path / marker).exists():
            yield path.name


def _json(home: Path, file: Path) -> Any:
    try:
        if inside(home, file) and file.is_file() and file.stat().st_size <= _MAX_FILE_BYTES:
            return msgspec.json.decode(file.read_bytes())
    except (OSError, *UNREADABLE):  # it only holds names for the report
        pass
    return None
