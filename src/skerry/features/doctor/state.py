"""Checks of the database and of its backups."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from skerry.infra import sqlite
from skerry.infra.sqlite import quick_check
from skerry.ports.checks import Check, Level
from skerry.store import DATABASE, Reader, recovered_lines, unreadable_entries
from skerry.store.condition import ENTRIES_REMEDY, Storage

RESTORE: Final = "Stop the gateway, then: skerry backup restore"
OPEN: Final = "Give this user write access, and close other programs that use it."


def database(state_dir: Path) -> Check:
    """Checks that the database can be read."""
    file = state_dir / DATABASE
    if not file.exists():
        return Check("database", Level.OK, "none yet; the first start creates it.")
    try:
        finding = quick_check(file)
    except sqlite3.OperationalError as error:  # the database may be intact, because it was not read
        return Check("database", Level.FAILURE, f"{file}: {error}.", OPEN)
    if finding == "ok":
        return _entries(file)
    return Check("database", Level.FAILURE, f"{file}: {finding}.", RESTORE)


def _entries(file: Path) -> Check:
    """Checks that each transcript entry can be read, which SQLite does not verify."""
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            broken = unreadable_entries.scan(Reader(connection))
    except sqlite3.Error:
        broken = []  # of an older version, for example, which a start migrates
    if not broken:
        return Check("database", Level.OK, f"{file} ({_size(file) // 1024} KiB)")
    message = f"corrupt: {broken[0].message}"
    if len(broken) > 1:
        message += f"; so are {len(broken) - 1} more"
    return Check("database", Level.FAILURE, f"{message}.", ENTRIES_REMEDY)


def _size(file: Path) -> int:
    """Returns the bytes of a database and of its write-ahead log, which may hold most rows."""
    log = file.with_name(f"{file.name}-wal")
    return file.stat().st_size + (log.stat().st_size if log.exists() else 0)


def recovered(state_dir: Path) -> Check:
    """Checks for lines of transcript files that the database does not have."""
    lines = recovered_lines.notice(state_dir)
    if lines is None:
        return Check(
            "recovered messages", Level.OK, "none: the database has all messages of the files."
        )
    return Check("recovered messages", Level.WARNING, lines.message, lines.remedy)


def running(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields the reason why a running gateway cannot use its database."""
    storage = status.get("storage", {"state": Storage.OK})
    if storage["state"] == Storage.OK:
        return
    level = Level.WARNING if storage["state"] == Storage.CHECKING else Level.FAILURE
    message = (
        f"{storage['state']}: {storage.get('message') or 'the running gateway reports no reason'}."
    )
    yield Check("storage", level, message, str(storage.get("remedy", "")))
