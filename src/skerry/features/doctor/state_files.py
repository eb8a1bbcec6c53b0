"""Checks of the files: the configuration and its earlier copies, permissions, the mirror."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skerry.config import warnings
from skerry.config.backup import BACKUPS, LAST_GOOD, LAST_GOOD_REMEDY, REJECTED, copy_path
from skerry.config.load import Loaded
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import ConfigInvalidError
from skerry.ports.checks import Check, Level

PRIVATE: Final = ("*.json*", "*.sqlite*", "logs/*.jsonl*")
"""Files of the state directory that contain messages or secrets."""


def configuration(loaded: Loaded) -> list[Check]:
    """Checks a valid configuration; `permissions` has a separate check."""
    source = loaded.source
    origin = (
        str(source.path) if source.exists else f"{source.path} does not exist; the defaults apply."
    )
    checks = [Check("configuration", Level.OK, origin)]
    files = loaded.expanded.files
    checks += [Check("configuration", Level.OK, f"includes {file}") for file in files]
    if loaded.expanded.used:
        names = ", ".join(sorted(loaded.expanded.used))
        checks.append(Check("configuration", Level.OK, f"refers to {names}; all are set"))
    readable = warnings.permissions(loaded.config.state_dir, source)
    for warning in loaded.warnings:
        if warning in readable:
            continue
        message = f"{warning.path or source.path}: {warning.message}"
        checks.append(Check("configuration", Level.WARNING, message, warning.remedy))
    if loaded.config.gateway.control.allow_code_changes:
        message = "gateway.control.allowCodeChanges: admin clients may change the code that runs."
        remedy = "Remove it when the change is made."
        checks.append(Check("configuration", Level.WARNING, message, remedy))
    return checks


def broken(error: ConfigInvalidError, last_good: Loaded | None) -> list[Check]:
    """Returns the errors of an invalid configuration, and the configuration used instead."""
    checks = [
        Check(
            "configuration",
            Level.FAILURE,
            ": ".join(filter(None, (error.file, issue.path, issue.message))),
            issue.remedy,
        )
        for issue in error.issues
    ]
    if last_good is not None:
        message = f"a gateway uses {copy_path(last_good.config.path, LAST_GOOD)} in its place."
        remedy = LAST_GOOD_REMEDY.format(path=last_good.config.path)
        checks.append(Check("last good configuration", Level.WARNING, message, remedy))
    return checks


def earlier_files(path: Path) -> Check:
    """Returns the earlier files of the configuration."""
    earlier = [
        backup for backup in (copy_path(path, ending) for ending in BACKUPS) if backup.is_file()
    ]
    aside = copy_path(path, REJECTED)
    if aside.is_file():
        message = f"{aside} is a rejected edit."
        return Check("earlier files", Level.WARNING, message, "skerry config edit, or remove it.")
    if not earlier:
        return Check(
            "earlier files",
            Level.OK,
            "none yet; the first change of the configuration creates one.",
        )
    return Check(
        "earlier files", Level.OK, f"{len(earlier)} of the configuration, the newest {earlier[0]}"
    )


def permissions(state_dir: Path, path: Path) -> list[Check]:
    """Returns the private files that others can read."""
    open_files = list(_open(state_dir, path))
    if not open_files:
        return [Check("permissions", Level.OK, "only you can read the state")]
    return [
        Check(
            "permissions",
            Level.WARNING,
            f"others can read {file} (mode {mode:04o}).",
            f"Run: skerry doctor --fix, or chmod {'700' if file.is_dir() else '600'} {file}",
        )
        for file, mode in open_files
    ]


def mend(state_dir: Path, path: Path) -> list[Check]:
    """Removes the access of others to the state; changes nothing else."""
    results = []
    for file, mode in _open(state_dir, path):
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.fchmod(descriptor, mode & 0o700)
            finally:
                os.close(descriptor)
        except OSError as error:
            message = f"{file}: {error.strerror}."
            results.append(Check("permissions", Level.FAILURE, message, "Check its owner."))
        else:
            results.append(Check("permissions", Level.OK, f"{file} is private now"))
    return results


def mirror(state_dir: Path, loaded: Loaded) -> Check:
    """Checks that the mirrors can be read; the database has the same content."""
    remedy = "Stop the gateway, then: skerry sessions mirror"
    for agent in loaded.config.agents.ids:
        file = state_dir / "agents" / agent / "sessions" / "sessions.json"
        try:
            listed = json.loads(file.read_bytes()) if file.exists() else {}
        except (OSError, *UNREADABLE) as error:
            message = f"{file} cannot be read: {type(error).__name__}."
            return Check("mirror", Level.WARNING, message, remedy)
        if not isinstance(listed, dict):
            return Check("mirror", Level.WARNING, f"{file} is not a list of sessions.", remedy)
    return Check("mirror", Level.OK, str(state_dir / "agents"))


def _open(state_dir: Path, path: Path) -> Iterator[tuple[Path, int]]:
    """Yields the files that others can read, each with its mode."""
    candidates = {state_dir, path, *(copy_path(path, ending) for ending in (*BACKUPS, LAST_GOOD))}
    for pattern in PRIVATE:
        candidates.update(state_dir.glob(pattern))
    for file in sorted(candidates):
        try:
            status = file.lstat()
        except OSError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077 and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            yield file, mode
