"""Content of an OpenClaw home that is not taken: for people, by name."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from skerry.config.paths import lookup
from skerry.features.openclaw.mapping import foreign_hooks
from skerry.features.openclaw.report import Missed, Report
from skerry.infra.channels import PLATFORMS
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import AgentId, agent_id
from skerry.store import openclaw_databases as database

_HANDLED: Final = frozenset({"openclaw.json", "agents", "exec-approvals.json"})
_EARLIER: Final = "openclaw.json."
_LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a file that is looked into for names."""
_WHY: Final = {
    ".env": "variables of the environment; set those that you want where the gateway starts",
    "browser": "profiles of a browser, which this version does not drive",
    "canvas": "this version has no canvas",
    "credentials": "logins and pairings of channels; set each up with skerry channels add",
    "cron": "its jobs arrive switched off; the log of their runs stays behind",
    "delivery-queue": "messages that the other gateway has not delivered",
    "devices": "clients of the other gateway; connect each to this one and approve it",
    "extensions": "plugins of OpenClaw are programs of Node",
    "hooks": "hooks of OpenClaw are programs of Node",
    "identity": "keys of a device; this gateway has its own",
    "logs": "logs",
    "media": "files that channels brought",
    "memory": "an index, which is rebuilt from the files in the workspaces",
    "sandboxes": "copies for sandboxes",
    "skills": "only plugins have skills here; put those that you want into the folder of a plugin",
    "state": "internal state of the other gateway",
    "subagents": "internal state of the other gateway",
    "update-check.json": "internal state of the other gateway",
}


def is_home(home: Path) -> bool:
    """Returns whether the directory looks like a home of OpenClaw."""
    if (home / "openclaw.json").is_file() or (home / "agents").is_dir():
        return True
    return any(workspaces(home))


def workspaces(home: Path) -> Iterator[Path]:
    """Yields the folders of the home that are workspaces by their names."""
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
    """Returns whether the path, links followed, lies in the home."""
    return path.resolve().is_relative_to(home.resolve())


def missed(home: Path, theirs: Mapping[str, Any]) -> Iterator[Missed]:
    """Yields what the person had there and will not have here."""
    if names := _keys(theirs, "channels", without=("defaults", "modelByChannel")):
        yield Missed("Channels", names, _channels(names))
    if names := tuple(dict.fromkeys(_skills(home))):
        yield Missed(
            "Skills",
            names,
            "Only plugins have skills here: put them into the folder of one.",
        )
    hooks = dict.fromkeys([*foreign_hooks(theirs), *_folders(home / "hooks")])
    if hooks:
        yield Missed("Hooks", tuple(hooks), "Hooks of OpenClaw are programs of Node.")
    plugins = dict.fromkeys([*_plugins(theirs), *_folders(home / "extensions")])
    if plugins:
        yield Missed("Plugins", tuple(plugins), "Plugins of OpenClaw are programs of Node.")
    if names := tuple(_devices(home)):
        yield Missed(
            "Paired devices", names, "Connect each to this gateway and approve it: skerry devices."
        )


def name_the_rest(home: Path, taken: set[Path], report: Report) -> None:
    """Names everything in the home that is not taken."""
    earlier = 0
    for path in sorted(home.iterdir()):
        if path.name in _HANDLED or path in taken:
            continue
        if path.name.startswith(_EARLIER):
            earlier += 1
        elif path in set(workspaces(home)):
            report.leave(path.name, "no agent of the configuration has this workspace")
        else:
            report.leave(path.name, _WHY.get(path.name, "this version has no use for it"))
    if earlier:
        report.leave(f"{earlier} earlier copies of openclaw.json", "the present one is read")


def _keys(tree: Mapping[str, Any], *keys: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    value = lookup(tree, keys)
    return tuple(name for name in value if name not in without) if isinstance(value, dict) else ()


def jobs(home: Path, report: Report) -> list[Any]:
    """Returns the scheduled jobs: of the state database (2026.9), then of the file (2026.2)."""
    file = home / "state" / database.STATE_FILE
    stored: list[Any] = []
    if inside(home, file) and file.is_file():
        try:
            with database.opened(file) as opened:
                stored += database.jobs(opened)
        except (OSError, sqlite3.Error) as error:
            report.leave(str(file), f"its scheduled jobs cannot be read: {error}")
    content = _json(home, home / "cron" / "jobs.json")
    listed = content.get("jobs") if isinstance(content, dict) else content
    return [*stored, *listed] if isinstance(listed, list) else stored


def _channels(names: Iterable[str]) -> str:
    """Returns how each platform is connected here, or that it cannot be."""
    spoken = [name for name in names if name in PLATFORMS]
    strange = [name for name in names if name not in PLATFORMS]
    commands = [f"skerry channels add {name}" for name in spoken]
    texts = []
    if commands:
        texts.append("Their settings are taken with your yes to each key, listed below.")
        texts.append("Stop the other gateway first: two programs cannot use one account.")
        texts.append(f"To connect one anew: {', '.join(commands)}.")
    if strange:
        texts.append(f"This version has no adapter for {', '.join(strange)}.")
    return " ".join(texts)


def _skills(home: Path) -> Iterator[str]:
    for folder in (home, *workspaces(home)):
        if inside(home, folder):
            yield from _folders(folder / "skills", having="SKILL.md")


def _plugins(theirs: Mapping[str, Any]) -> Iterator[str]:
    entries = lookup(theirs, ("plugins", "entries"))
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not (isinstance(entry, dict) and entry.get("enabled") is False):
            yield name


def _devices(home: Path) -> Iterator[str]:
    paired = _json(home, home / "devices" / "paired.json")
    for name, device in paired.items() if isinstance(paired, dict) else ():
        about = device if isinstance(device, dict) else {}
        yield str(about.get("displayName") or about.get("clientId") or name[:12])


def _folders(folder: Path, having: str = "") -> Iterator[str]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.name.startswith(".") and (path / having).exists():
            yield path.name


def _json(home: Path, file: Path) -> Any:
    try:
        if inside(home, file) and file.is_file() and file.stat().st_size <= _LARGEST:
            return msgspec.json.decode(file.read_bytes())
    except (OSError, *UNREADABLE):  # nothing is taken from it: it only has names
        pass
    return None
