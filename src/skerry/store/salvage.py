"""Copies the readable rows of a damaged database into a sound one.

A broken page ends a scan, so each table is read from its beginning and from its end, and the
transcript session by session: only the rows on broken pages are lost. A table that is read
completely replaces the backup's, so that rows deleted since the backup stay deleted. The readable
rows of another table are added to those of the backup and replace rows with the same key.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.infra.sqlite import Progress
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message

_Row = tuple[Any, ...]
_Sound = Callable[[_Row], bool]

_BUILT_ANEW: Final = ("sqlite_", "entry_text", "entry_indexed", "mirror")
"""Prefixes of the tables that are derived from others: the text index, the marks of files."""


@dataclass(frozen=True, slots=True)
class SalvagedTable:
    """Counts of the rows salvaged from one table."""

    name: str
    backup_rows: int
    """Number of rows in the backup."""
    salvaged: int
    """Number of rows read from the damaged file."""
    is_complete: bool
    """True when no row is missing."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A session with missing messages."""

    key: str
    session_id: str
    missing: int


def salvage(
    damaged: Path, sound: Path, progress: Progress = lambda _completed, _total: None
) -> list[SalvagedTable]:
    """Copies the readable rows of `damaged` into `sound`, which has the newest schema. Blocks."""
    with closing(sqlite3.connect(sound, isolation_level=None)) as target:
        names = [
            name
            for (name,) in target.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
            )
            if not name.startswith(_BUILT_ANEW)
        ]
        names.sort(key=lambda name: name != "session")  # entries are read session by session
        tables = []
        with closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as source:
            for number, name in enumerate(names):
                progress(number, len(names))
                tables.append(_take(source, target, name))
        progress(len(names), len(names))
        # Salvaged entries may be newer than the salvaged row of their session.
        target.execute(
            "UPDATE session SET tail = max(tail, coalesce((SELECT max(seq) FROM entry"
            " WHERE entry.session_id = session.session_id), 0))"
        )
        target.execute("DELETE FROM mirror")
    return tables


def gaps(path: Path) -> list[Gap]:
    """Returns the sessions with missing messages."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT key, session_id, tail - (SELECT count(*) FROM entry"
            " WHERE entry.session_id = session.session_id) AS missing FROM session"
            " WHERE missing > 0 ORDER BY key, session_id"
        ).fetchall()
    return [Gap(*row) for row in rows]


def _take(source: sqlite3.Connection, target: sqlite3.Connection, name: str) -> SalvagedTable:
    (count_before,) = target.execute(f'SELECT count(*) FROM "{name}"').fetchone()  # noqa: S608 - names of the schema
    try:
        columns = _columns(source, name)
    except sqlite3.DatabaseError:
        columns = []
    common = [column for column in _columns(target, name) if column in columns]
    if not common:
        return SalvagedTable(name, count_before, 0, is_complete=False)
    listed = ", ".join(f'"{column}"' for column in common)
    target.execute(f'CREATE TEMP TABLE read AS SELECT {listed} FROM "{name}" WHERE 0')  # noqa: S608 - as above
    target.execute("BEGIN")
    sound = _sound_at(common.index("body")) if name == "entry" else _any
    read = [_read(source, target, scan, sound) for scan in _scans(target, name, listed)]
    complete = all(read)
    (salvaged,) = target.execute("SELECT count(*) FROM read").fetchone()
    if complete:
        target.execute(f'DELETE FROM "{name}"')  # noqa: S608 - as above
    elif name == "session":
        _make_room(target)
    target.execute(f'INSERT OR REPLACE INTO "{name}" ({listed}) SELECT {listed} FROM read')  # noqa: S608 - as above
    target.execute("COMMIT")
    target.execute("DROP TABLE temp.read")
    return SalvagedTable(name, count_before, salvaged, complete)


def _make_room(target: sqlite3.Connection) -> None:
    """Archives the sessions of the backup that newer sessions of their keys replaced."""
    target.execute(
        "UPDATE session SET current = 0, archived = 'reset', archived_at = updated_at"
        " WHERE current AND session_id NOT IN (SELECT session_id FROM read)"
        " AND key IN (SELECT key FROM read WHERE current)"
    )


@dataclass(frozen=True, slots=True)
class _Scan:
    """A part of a table, and the columns that order it for a scan in either direction."""

    select: str
    order: Sequence[str]
    values: tuple[Any, ...] = ()

    def sql(self, direction: str) -> str:
        order = ", ".join(f"{column} {direction}" for column in self.order)
        return f"{self.select} ORDER BY {order}"


def _scans(target: sqlite3.Connection, name: str, listed: str) -> Iterator[_Scan]:
    select = f'SELECT {listed} FROM "{name}"'  # noqa: S608 - names of the schema
    if name == "entry":
        for (session_id,) in target.execute("SELECT session_id FROM session").fetchall():
            yield _Scan(f"{select} WHERE session_id = ?", ("seq",), (session_id,))
        return
    key = target.execute(f'SELECT name FROM pragma_table_info("{name}") WHERE pk ORDER BY pk')  # noqa: S608 - as above
    names = [f'"{column}"' for (column,) in key]
    (sql,) = target.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    yield _Scan(select, names if "WITHOUT ROWID" in sql.upper() else ("rowid",))


def _read(
    source: sqlite3.Connection, target: sqlite3.Connection, scan: _Scan, sound: _Sound
) -> bool:
    """Reads the part forwards, and after an error also backwards.

    Returns whether all rows were read.
    """
    complete = True
    for direction in ("ASC", "DESC"):
        try:
            cursor = source.execute(scan.sql(direction), scan.values)
            while row := cursor.fetchone():
                if sound(row):
                    target.execute(f"INSERT INTO read VALUES ({_marks(row)})", row)  # noqa: S608 - placeholders
                else:
                    complete = False
        except sqlite3.DatabaseError:
            complete = False
            continue
        break
    return complete


def _marks(row: _Row) -> str:
    return ", ".join("?" * len(row))


def _any(_row: _Row) -> bool:
    return True


def _sound_at(index: int) -> _Sound:
    """Returns a check that a row has a message: rows of a broken page may have other bytes."""

    def sound(row: _Row) -> bool:
        try:
            message.decode(row[index])
        except (TypeError, *UNREADABLE):
            return False
        return True

    return sound


def _columns(connection: sqlite3.Connection, name: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
