"""Operations that are specific to SQLite: pragmas, transactions, rewriting a file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skerry.infra import sqlite
from skerry.store.unit import Reader, Unit


def overwrite_deleted(unit: Unit) -> None:
    """Makes SQLite overwrite deleted data in the file from now on."""
    unit.execute("PRAGMA secure_delete = ON")


def columns(reader: Reader, table: str) -> set[str]:
    """Returns the names of a table's columns; an empty set if the table does not exist."""
    return {name for (name,) in reader.all("SELECT name FROM pragma_table_info(?)", (table,))}


def rewrite(path: Path) -> bool:
    """Rewrites the database and truncates its log; returns False if a reader uses the log. Blocks.

    Raises:
        sqlite3.Error: a reader locked the file for too long, or the disk is full.
    """
    with closing(sqlite.connect(path)) as connection:
        connection.execute("VACUUM")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Opens a read transaction for the block: later commits are not visible in it."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[Unit]:
    """Yields a unit; commits it at the end of the block, or rolls back if the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield Unit(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")
        raise


def write_once(path: Path, version: int, work: Callable[[Unit], object]) -> bool:
    """Runs one unit while a gateway may run; returns False if the schema version differs. Blocks.

    Raises:
        sqlite3.Error: the unit was not written.
    """
    with closing(sqlite.connect(path)) as connection:
        (present_version,) = connection.execute("PRAGMA user_version").fetchone()
        if present_version != version:
            return False
        with transaction(connection) as unit:
            work(unit)
    return True
