"""Opens SQLite databases the one way that we trust, and brings them to the newest schema."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

BUSY_TIMEOUT_MS = 5_000
BACKUPS = 3
"""Backups that are kept of a file, the newest."""


class NewerSchemaError(Exception):
    """The file was written by a newer version of the program."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(f"schema {found} is newer than {known}")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection in autocommit mode, usable from any one thread at a time.

    Writers get WAL and `synchronous=FULL`: what was committed survives power loss.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if not read_only:
            path.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    """Run the steps that the file has not seen, each in a transaction of its own.

    `PRAGMA user_version` counts the steps done. Before the first of them a file that has content
    is copied to `<name>.v<version>.bak`; the three newest copies are kept.

    Raises:
        NewerSchemaError: the file has seen more steps than there are.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise NewerSchemaError(version, len(steps))
    if 0 < version < len(steps):
        _back_up(connection, path.with_name(f"{path.name}.v{version}.bak"))
    for number, step in enumerate(steps[version:], version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;"
        )


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database to `target`, which is there whole or not at all, and drop old copies."""
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    copy = sqlite3.connect(unfinished)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    unfinished.replace(target)
    stem, _, _ = target.name.rpartition(".v")
    versions = {
        int(number): path
        for path in target.parent.iterdir()
        if (number := path.name.removeprefix(f"{stem}.v").removesuffix(".bak")).isdecimal()
    }
    for version in sorted(versions)[:-BACKUPS]:
        versions[version].unlink()


def quick_check(path: Path) -> str:
    """Return `ok`, or what SQLite finds wrong in the file."""
    connection = connect(path, read_only=True)
    try:
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return str(answer)
    finally:
        connection.close()
