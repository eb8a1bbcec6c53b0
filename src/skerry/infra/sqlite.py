"""Opens, migrates, copies and checks SQLite databases."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

BUSY_TIMEOUT_MS = 5_000
BACKUPS = 3
"""Number of kept backups of a file, the newest."""
PAGES: Final = 1024
"""Pages copied between two calls of `Progress`: 4 MiB."""
MAX_PROBLEMS: Final = 100
"""Limit of reported problems."""

Progress = Callable[[int, int], None]
"""Called with the number of copied pages and the number of all pages."""


class NewerSchemaError(Exception):
    """A newer version of the program has migrated the file."""

    def __init__(self, version: int, newest: int) -> None:
        self.version = version
        self.newest = newest
        super().__init__(f"schema {version} is newer than {newest}")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Returns a connection in autocommit mode, usable from one thread at a time.

    A writing connection uses WAL and `synchronous=FULL`: committed data survives a loss of power.

    Raises:
        sqlite3.Error: the file cannot be opened or is no database.
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
    connection: sqlite3.Connection,
    path: Path,
    steps: Sequence[str],
    *,
    then: Sequence[str] = (),
    keep: bool = True,
) -> None:
    """Runs the migrations in `steps` that the file lacks, and the scripts `then`.

    They are one transaction, since each COMMIT waits for the disk. `PRAGMA user_version` counts the
    steps that were run. Before the first missing step a file with content is copied to
    `<name>.v<version>.bak`, unless `keep` is false; the three newest copies are kept.

    Raises:
        NewerSchemaError: `user_version` is larger than the number of steps.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise NewerSchemaError(version, len(steps))
    if keep and 0 < version < len(steps):
        _back_up(connection, path.with_name(f"{path.name}.v{version}.bak"))
    scripts = [*steps[version:], *then]
    if scripts:
        scripts.append(f"PRAGMA user_version = {len(steps)}")
        connection.executescript(f"BEGIN IMMEDIATE; {'; '.join(scripts)}; COMMIT;")


def copy(
    connection: sqlite3.Connection, target: Path, progress: Progress = lambda _copied, _all: None
) -> None:
    """Copies the present state of the database to the file `target` atomically.

    Other connections may write meanwhile.
    """
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    reading = not connection.in_transaction
    if reading:  # else each write of another connection would restart the copy
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    try:
        with closing(sqlite3.connect(unfinished)) as destination:
            connection.backup(
                destination,
                pages=PAGES,
                progress=lambda _, remaining, total: progress(total - remaining, total),
            )
            destination.execute("PRAGMA journal_mode = DELETE")
    finally:
        if reading:
            connection.execute("ROLLBACK")
    unfinished.replace(target)


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copies the database to `target` and deletes old copies."""
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
    """Returns `ok`, or the first problem that SQLite reports in the file."""
    reports = problems(path, whole=False)
    return reports[0] if reports else "ok"


def problems(path: Path, *, whole: bool) -> list[str]:
    """Returns the problems that SQLite reports in the file; writes nothing.

    Args:
        path: A database, which may be in use.
        whole: True compares the indexes with their tables too, which takes several times as long.

    Raises:
        sqlite3.OperationalError: the file cannot be opened.
    """
    check = "integrity_check" if whole else "quick_check"
    try:
        with closing(connect(path, read_only=True)) as connection:
            rows = connection.execute(f"PRAGMA {check}({MAX_PROBLEMS})").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if rows == [("ok",)] else [str(text) for (text,) in rows]


def is_empty(connection: sqlite3.Connection) -> bool:
    """Returns True when a database has no table."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
