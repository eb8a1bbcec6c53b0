"""Brings a configuration of an earlier version to the keys of this one (pure).

Each migration takes a tree and returns the new tree with notes on its changes for people. A
migration without anything to do returns the tree unchanged, so all of them may run again. If the
new key is set already, the old one is dropped, and a note reports it.
Source: openclaw-behaviour 0 (13), 1.5, 1.7.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skerry.config.paths import MISSING, KeyPath, lookup, replaced, show_key_path

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration step."""

    since: str
    """The version that introduced the new keys."""
    run: Callable[[Tree], tuple[Tree, list[str]]]


@dataclass(frozen=True, slots=True)
class Migrated:
    """The tree with the keys of this version, and notes on the changes for people."""

    tree: Tree
    changes: tuple[str, ...]


def migrate(tree: Mapping[str, Any]) -> Migrated:
    """Returns the tree with the keys of this version; the argument is not changed."""
    new, changes = copy.deepcopy(dict(tree)), list[str]()
    for migration in MIGRATIONS:
        new, notes = migration.run(new)
        changes += [f"{note} (since {migration.since})" for note in notes]
    return Migrated(new, tuple(changes))


def _moved(tree: Tree, old: KeyPath, new: KeyPath) -> tuple[Tree, list[str]]:
    """Moves the value at `old` to `new`; of a section, the keys that are missing in `new`."""
    value = lookup(tree, old)
    if value is MISSING or not _has_room(tree, new):
        return tree, []
    present = lookup(tree, new)
    if isinstance(value, dict) and isinstance(present, dict):
        changes = []
        for key in value:
            tree, notes = _moved(tree, (*old, key), (*new, key))
            changes += notes
        return (replaced(tree, old, MISSING) if not lookup(tree, old) else tree), changes
    tree = replaced(tree, old, MISSING)
    if present is not MISSING:
        return tree, [f"dropped {show_key_path(old)}: {show_key_path(new)} is set"]
    return replaced(tree, new, value), [f"moved {show_key_path(old)} to {show_key_path(new)}"]


def _has_room(tree: Tree, key_path: KeyPath) -> bool:
    """Returns whether every parent of the key is a section, or is missing."""
    above = [lookup(tree, key_path[:depth]) for depth in range(1, len(key_path))]
    return all(section is MISSING or isinstance(section, dict) for section in above)


def _moves(*moves: tuple[str, str]) -> Callable[[Tree], tuple[Tree, list[str]]]:
    key_paths = [(tuple(old.split(".")), tuple(new.split("."))) for old, new in moves]

    def run(tree: Tree) -> tuple[Tree, list[str]]:
        changes = []
        for old, new in key_paths:
            tree, notes = _moved(tree, old, new)
            changes += notes
        for old, _ in key_paths:
            for depth in range(len(old) - 1, 0, -1):
                if lookup(tree, old[:depth]) == {} and _took_from(changes, old[:depth]):
                    tree = replaced(tree, old[:depth], MISSING)
        return tree, changes

    return run


def _took_from(changes: list[str], key_path: KeyPath) -> bool:
    """Returns whether a key was moved or dropped from the section."""
    return any(f" {show_key_path(key_path)}." in note for note in changes)


_SCOPES: Final = {
    "perpeer": "per-peer",
    "perchannelpeer": "per-channel-peer",
    "peraccountchannelpeer": "per-account-channel-peer",
    "shared": "main",
}


def _scope(tree: Tree) -> tuple[Tree, list[str]]:
    """Replaces the old spellings of `session.dmScope`."""
    key_path: KeyPath = ("session", "dmScope")
    scope = lookup(tree, key_path)
    if not isinstance(scope, str):
        return tree, []
    new = _SCOPES.get("".join(char for char in scope.lower() if char.isalnum()), scope)
    if new == scope:
        return tree, []
    return replaced(tree, key_path, new), [f"changed session.dmScope from {scope!r} to {new!r}"]


def _peers(tree: Tree) -> tuple[Tree, list[str]]:
    """Replaces `dm` by `direct` in the bindings."""
    changes = []
    listed = tree.get("bindings")
    for number in range(len(listed) if isinstance(listed, list) else 0):
        key_path: KeyPath = ("bindings", number, "match", "peer", "kind")
        if lookup(tree, key_path) == "dm":
            tree = replaced(tree, key_path, "direct")
            changes.append(f"changed {show_key_path(key_path)} from 'dm' to 'direct'")
    return tree, changes


MIGRATIONS: Final = (
    Migration(
        "OpenClaw 2026.1",
        _moves(
            ("routing.bindings", "bindings"),
            ("routing.queue", "messages.queue"),
            ("routing.groupChat", "messages.groupChat"),
            ("gateway.token", "gateway.auth.token"),
            ("gateway.password", "gateway.auth.password"),
        ),
    ),
    Migration(
        "OpenClaw 2026.2",
        _moves(
            ("memorySearch", "agents.defaults.memorySearch"),
            ("memory.search", "agents.defaults.memorySearch"),
            ("agent", "agents.defaults"),
        ),
    ),
    Migration("OpenClaw 2026.2", _scope),
    Migration("OpenClaw 2026.2", _peers),
)
"""Migrations in order."""
