"""Opens SQLite databases the one way that we trust, and brings them to the newest schema."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

BUSY_TIMEOUT_MS = 5_000
BACKUPS = 3
"""Backups that are kept of a file, the newest."""
PAGES: Final = 1024
"""Copied between two reports of progress: 4 MiB."""
MOST_PROBLEMS: Final = 100

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


class NewerSchemaError(Exception):
    """The file was written by a newer version of the program."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(f"schema {found} is newer than {known}")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Returns a connection in autocommit mode, usable from any one thread at a time.

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


def migrate(
    connection: sqlite3.Connection, path: Path, steps: Sequence[str], *, keep: bool = True
) -> None:
    """Runs the steps that the file has not seen, each in a transaction of its own.

    `PRAGMA user_version` counts the steps done. Before the first of them a file that has content
    is copied to `<name>.v<version>.bak`, unless `keep` is false; the three newest copies are kept.

    Raises:
        NewerSchemaError: the file has seen more steps than there are.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise NewerSchemaError(version, len(steps))
    if keep and 0 < version < len(steps):
        _back_up(connection, path.with_name(f"{path.name}.v{version}.bak"))
    for number, step in enumerate(steps[version:], version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;"
        )


def copy(
    connection: sqlite3.Connection, target: Path, progress: Progress = lambda _done, _all: None
) -> None:
    """Copies the database, as it is now, to `target`: one file, there whole or not at all.

    Others may go on writing meanwhile.
    """
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    reading = not connection.in_transaction
    if reading:  # else each write of others would begin the copy anew
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    try:
        with closing(sqlite3.connect(unfinished)) as made:
            connection.backup(
                made,
                pages=PAGES,
                progress=lambda _, remaining, total: progress(total - remaining, total),
            )
            made.execute("PRAGMA journal_mode = DELETE")
    finally:
        if reading:
            connection.execute("ROLLBACK")
    unfinished.replace(target)


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copies the database to `target` and drops old copies."""
    copy(connection, target)
    stem, _, _ = target.name.rpartition(".v")
    versions = {
        int(number): path
        for path in target.parent.iterdir()
        if (number := path.name.removeprefix(f"{stem}.v").removesuffix(".bak")).isdecimal()
    }
    for version in sorted(versions)[:-BACKUPS]:
        versions[version].unlink()


def quick_check(path: Path) -> str:
    """Returns `ok`, or what SQLite finds wrong in the file."""
    reports = problems(path, whole=False)
    return reports[0] if reports else "ok"


def problems(path: Path, *, whole: bool) -> list[str]:
    """Returns the problems that SQLite reports in the file; nothing is written.

    Args:
        path: A database, which others may be using.
        whole: Compare the indexes with their tables too, which takes several times as long.

    Raises:
        sqlite3.OperationalError: the file cannot be opened.
    """
    check = "integrity_check" if whole else "quick_check"
    try:
        with closing(connect(path, read_only=True)) as connection:
            rows = connection.execute(f"PRAGMA {check}({MOST_PROBLEMS})").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if rows == [("ok",)] else [str(text) for (text,) in rows]


def is_empty(connection: sqlite3.Connection) -> bool:
    """Returns whether a database has no table yet."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
