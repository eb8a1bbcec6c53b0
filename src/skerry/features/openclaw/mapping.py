"""Mapping of an OpenClaw configuration onto this one, with the keys that have no equivalent (pure).

The tree is migrated; then each key that the present check refuses is removed, with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.config.check import check
from skerry.config.migrations import migrate
from skerry.config.paths import MISSING, KeyPath, lookup, replaced, show_key_path, without_empty
from skerry.config.redact import with_leaves
from skerry.model.errors import ConfigInvalidError, ConfigIssue

_OWN_KEYS: Final[tuple[tuple[KeyPath, str], ...]] = (
    (("gateway", "mode"), "this machine runs the gateway"),
    (("gateway", "remote"), "this machine runs the gateway"),
    (
        ("gateway", "port"),
        "this gateway has its own; both use 18789, so stop the other one or set gateway.port",
    ),
    (("agents", "defaults", "workspace"), ""),
    (("browser",), "this gateway drives its own browser; set browser.enabled for it"),
    (("plugins",), "plugins of OpenClaw are programs of Node"),
    (("meta",), ""),
    (("wizard",), ""),
    (("$schema",), ""),
)
"""Keys that the import drops, each with the reason; an empty reason adds no line to the report."""
ENTRIES: Final = ("hooks", "internal", "entries")
_BUNDLED: Final = ("session-memory", "boot-md")
"""Hooks that both OpenClaw and Skerry have."""
_ROUNDS: Final = 500


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A part of the installation that is not imported, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Mapped:
    """The mapped configuration, and the keys without an equivalent."""

    tree: dict[str, Any]
    moved: tuple[str, ...]
    unmapped: tuple[Unmapped, ...]


def mapped(tree: Mapping[str, Any]) -> Mapped:
    """Maps the tree of an `openclaw.json`, its includes already expanded."""
    migrated = migrate(tree)
    new, unmapped = migrated.tree, list[Unmapped]()
    new = replaced(new, ("hooks",), MISSING)
    if bundled := _bundled_hooks(migrated.tree):
        new = replaced(new, ENTRIES, bundled)
    unmapped += [
        Unmapped(f"hooks.internal.entries.{name}", "hooks of OpenClaw are programs of Node")
        for name in foreign_hooks(migrated.tree)
    ]
    removed = [*_OWN_KEYS, *_agents(new)]
    for key_path, reason in removed:
        if lookup(new, key_path) is not MISSING:
            new = replaced(new, key_path, MISSING)
            if reason:
                unmapped.append(Unmapped(show_key_path(key_path), reason))
    new, unfit = fitting(new)
    return Mapped(without_empty(new), migrated.changes, tuple(dict.fromkeys([*unmapped, *unfit])))


def fitting(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[Unmapped]]:
    """Returns the part of the tree that passes the present check, and the keys that do not."""
    new, unmapped = dict(tree), list[Unmapped]()
    for _ in range(_ROUNDS):
        issues = _issues(new)
        if not issues:
            break
        for issue in issues:
            key_path = _nearest(new, issue.path)
            if key_path:
                new = replaced(new, key_path, MISSING)
                unmapped.append(Unmapped(show_key_path(key_path), issue.message))
    else:
        new = {}
    return new, unmapped


def foreign_hooks(tree: Mapping[str, Any]) -> list[str]:
    """Returns the names of the enabled hooks that Skerry does not have."""
    entries = lookup(tree, ENTRIES)
    listed = entries if isinstance(entries, dict) else {}
    return [
        name
        for name, entry in listed.items()
        if name not in _BUNDLED and not (isinstance(entry, dict) and entry.get("enabled") is False)
    ]


def _bundled_hooks(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of hooks that both programs have, reduced to `enabled`."""
    entries = lookup(tree, ENTRIES)
    if not isinstance(entries, dict) or lookup(tree, ("hooks", "internal", "enabled")) is False:
        return {}
    return {
        name: {"enabled": entry["enabled"]}
        for name in _BUNDLED
        if isinstance(entry := entries.get(name), dict) and isinstance(entry.get("enabled"), bool)
    }


def merged(
    current: Mapping[str, Any], foreign: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Returns the union, where `current` wins, and the key paths of the conflicts."""
    return _merged(current, foreign, ())


def _merged(
    current: Mapping[str, Any], foreign: Mapping[str, Any], key_path: KeyPath
) -> tuple[dict[str, Any], list[str]]:
    combined, conflicts = dict(current), list[str]()
    for key, value in foreign.items():
        present = current.get(key, MISSING)
        if present is MISSING:
            combined[key] = value
        elif isinstance(present, dict) and isinstance(value, dict):
            combined[key], nested = _merged(present, value, (*key_path, key))
            conflicts += nested
        elif present != value:
            conflicts.append(show_key_path((*key_path, key)))
    return combined, conflicts


def _agents(tree: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Returns the key paths that name the files of each agent."""
    listed = lookup(tree, ("agents", "list"))
    number = len(listed) if isinstance(listed, list) else 0
    keys = (("workspace", ""), ("agentDir", "credentials are read from the home alone"))
    return [(("agents", "list", n, key), reason) for n in range(number) for key, reason in keys]


def _issues(tree: Mapping[str, Any]) -> list[ConfigIssue]:
    try:
        _, warnings = check(_plain(tree), state_dir=Path("/"), path=Path("/skerry.json"))
    except ConfigInvalidError as error:
        return list(error.issues)
    return list(warnings)


def _plain(tree: Any) -> Any:
    """Returns the tree with a plain text in place of each secret reference."""
    return with_leaves(tree, lambda leaf: "a secret" if isinstance(leaf, dict) else leaf)


def _nearest(tree: Mapping[str, Any], path: str) -> KeyPath:
    """Returns the key path that an issue names, or its nearest ancestor in the tree.

    A key may contain dots, so each possible split of the path is tried.
    """
    at: Any = tree
    key_path: list[str | int] = []
    rest = path
    while rest:
        step = _part(at, rest)
        if step is None:
            break
        part, rest = step
        at = at[part]
        key_path.append(part)
    return tuple(key_path)


def _part(at: Any, rest: str) -> tuple[str | int, str] | None:
    if isinstance(at, list) and rest.startswith("["):
        number, _, rest = rest[1:].partition("]")
        exists = number.isdecimal() and int(number) < len(at)
        return (int(number), rest.removeprefix(".")) if exists else None
    if isinstance(at, dict):
        fitting = [key for key in at if rest == key or rest.startswith((f"{key}.", f"{key}["))]
        if fitting:
            key = max(fitting, key=len)
            return key, rest[len(key) :].removeprefix(".")
    return None
