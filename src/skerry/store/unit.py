"""Units: what must be true together; and readers, which change nothing."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final

ALL: Final = 1 << 62
"""A limit that no table reaches."""
AT_ONCE: Final = 500
"""Values of one `IN` list at most."""
Row = tuple[Any, ...]
Parameters = tuple[Any, ...]


ReportBroken = Callable[[str, int, str], None]
"""Callback for an entry that cannot be read: its session, its number, and the reason."""


def _ignore(_session_id: str, _seq: int, _reason: str) -> None:
    """Tells nobody."""


def marks(values: Sized) -> str:
    """Returns one placeholder a value, for an `IN` list; of no values one that nothing is in."""
    return ", ".join("?" * len(values)) or "NULL"


class Reader:
    """Runs queries."""

    __slots__ = ("_connection", "broken")

    def __init__(self, connection: sqlite3.Connection, broken: ReportBroken = _ignore) -> None:
        self._connection = connection
        self.broken = broken
        """Called for each entry that is skipped because it cannot be read."""

    def one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Returns the first row, or None."""
        row: Row | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def all(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Returns every row."""
        return self._connection.execute(sql, parameters).fetchall()

    def each(self, sql: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Gives row after row: for more than should be in memory at once."""
        yield from self._connection.execute(sql, parameters)


class Unit(Reader):
    """One caller's writes: all of them are committed, or none.

    The writer opens it, and undoes one that fails; whoever handed it in decides what belongs
    together.
    """

    __slots__ = ("touched",)

    def __init__(self, connection: sqlite3.Connection, broken: ReportBroken = _ignore) -> None:
        super().__init__(connection, broken)
        self.touched: list[str] = []
        """Sessions whose mirror is behind once this is committed."""

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Runs a statement; returns how many rows it changed."""
        return self._connection.execute(sql, parameters).rowcount

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Runs a statement once a row."""
        self._connection.executemany(sql, rows)
