"""Units, whose changes are committed together, and readers, which change nothing."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final

ALL: Final = 1 << 62
"""A limit that no table reaches."""
AT_ONCE: Final = 500
"""Limit on the values of one `IN` list."""
Row = tuple[Any, ...]
Parameters = tuple[Any, ...]


ReportBroken = Callable[[str, int, str], None]
"""Callback for an entry that cannot be read: its session, its number, and the reason."""


def _ignore(_session_id: str, _seq: int, _reason: str) -> None:
    """Ignores an unreadable entry."""


def marks(values: Sized) -> str:
    """Returns a placeholder for each value, for an `IN` list; `NULL`, without a match, if empty."""
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
        """Yields the rows one at a time, for results that are too large for memory."""
        yield from self._connection.execute(sql, parameters)


class Unit(Reader):
    """Changes that are committed together, or not at all.

    The writer opens the unit, and rolls it back if its function fails.
    """

    __slots__ = ("touched",)

    def __init__(self, connection: sqlite3.Connection, broken: ReportBroken = _ignore) -> None:
        super().__init__(connection, broken)
        self.touched: list[str] = []
        """Changed sessions, whose mirrors are updated after the COMMIT."""

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Runs a statement; returns the number of changed rows."""
        return self._connection.execute(sql, parameters).rowcount

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Runs a statement once for each row."""
        self._connection.executemany(sql, rows)
