"""Operations that only SQLite has: pragmas, the transaction of one unit, rewriting a file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skerry.infra import sqlite
from skerry.store.unit import Reader, Unit


def overwrite_deleted(unit: Unit) -> None:
    """Has what is deleted from now on overwritten in the file."""
    unit.execute("PRAGMA secure_delete = ON")


def columns(reader: Reader, table: str) -> set[str]:
    """Returns the names of a table's columns; nothing where there is no such table."""
    return {name for (name,) in reader.all("SELECT name FROM pragma_table_info(?)", (table,))}


def rewrite(path: Path) -> bool:
    """Rewrites the database and cuts its log; returns False while a reader holds the log. Blocks.

    Raises:
        sqlite3.Error: a reader has held the file for too long, or the disk is full.
    """
    with closing(sqlite.connect(path)) as connection:
        connection.execute("VACUUM")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Lets what is read in the block be of one moment, whatever is committed meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[Unit]:
    """Gives a unit; commits what the block wrote with it, or nothing where the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield Unit(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")
        raise


def write_once(path: Path, version: int, work: Callable[[Unit], object]) -> bool:
    """Runs one unit beside a gateway; returns False where the file has another version. Blocks.

    Raises:
        sqlite3.Error: it was not written.
    """
    with closing(sqlite.connect(path)) as connection:
        (found_version,) = connection.execute("PRAGMA user_version").fetchone()
        if found_version != version:
            return False
        with transaction(connection) as unit:
            work(unit)
    return True
