"""Keeps a restore from taking security state back, and a backup from bringing a schema of its own.

Which devices may connect is decided by the database that is replaced, never by the backup: a device
that was revoked, and a token that was rotated, since the backup would work again. So are the
records of files: a restore brings no workspace back, so that what was written since is there.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.infra import sqlite
from skerry.store import schema_migrations
from skerry.store.state_schema import STEPS

TABLES: Final = ("device_grant", "device_token", "device_request")
"""Tables that never go back. Every table by which somebody is let in belongs here."""
FROZEN: Final = ("frozen", "frozen_part", "frozen_text", "frozen_note")
"""Tables that end with a restore: what prompts began with was judged by records of that time."""
RECORDS: Final = "file_record"
"""Table in which the rows of the replaced database win; if it is unreadable, the backup's are
kept."""
DECISIONS: Final = ("approval", "allowlist", "audit")
"""Tables of what people decided, which never go back: a pattern that was removed stays removed, and
a call that was made is not made again. Unreadable, the log stays that of the backup, and the others
are empty."""
_QUOTES: Final = re.compile(r'[\s"`\[\]]+')
_SQLITES: Final = frozenset({"sqlite_sequence", *(f"sqlite_stat{n}" for n in range(1, 5))})
"""Tables that SQLite makes; its indexes have no SQL."""
_MAX_NAME: Final = 80
"""Characters of a foreign name in an error."""


@dataclass(frozen=True, slots=True)
class KeptDevices:
    """Devices kept and dropped by a restore."""

    paired: int
    """Paired devices of the replaced database, which stay as they are."""
    dropped: int
    """Paired devices of the backup that must pair again."""
    is_known: bool
    """True when the replaced database could be read for them."""


def keep(replaced: Path, restored: Path) -> KeptDevices:
    """Puts the devices of the replaced database into `restored`, in the place of the backup's.

    Where they cannot be read, nobody is paired: nothing tells who was revoked since.
    """
    rows = _rows(replaced, TABLES)
    records = _rows(replaced, (RECORDS,))  # apart: an earlier version has none
    decisions = {name: _rows(replaced, (name,)) for name in DECISIONS}
    with closing(sqlite3.connect(restored, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        before = _paired(connection)
        for name in FROZEN:
            connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - constant names
        for name in TABLES:
            _replace(connection, name, rows)
        present = {name for _, name in _schema(connection)}
        for name in DECISIONS:
            if name in present and not (name == "audit" and decisions[name] is None):
                _replace(connection, name, decisions[name])
        columns, stored = (records or {}).get(RECORDS, ((), ()))
        if stored:
            marks = ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT OR REPLACE INTO {RECORDS} ({', '.join(columns)}) VALUES ({marks})",  # noqa: S608 - constant names
                stored,
            )
        after = _paired(connection)
        connection.execute("COMMIT")
    return KeptDevices(len(after), len(before - after), rows is not None)


def _replace(
    connection: sqlite3.Connection,
    name: str,
    rows: dict[str, tuple[tuple[str, ...], list[Any]]] | None,
) -> None:
    """Puts the rows of the replaced database in the place of those of a table."""
    connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - constant names
    columns, stored = (rows or {}).get(name, ((), ()))
    listed = ", ".join(f'"{column}"' for column in columns)
    marks = ", ".join("?" * len(columns))
    if stored:
        connection.executemany(f'INSERT INTO "{name}" ({listed}) VALUES ({marks})', stored)  # noqa: S608 - columns of the schema


def foreign(path: Path) -> str:
    """Returns schema objects that no version of this program made; empty if there are none.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            steps_run = schema_migrations.steps_done(connection)
            schema = _schema(connection)
    except sqlite3.DatabaseError:
        return ""  # it is damaged, and whoever looks for that says so
    if not 0 <= version <= len(STEPS):
        return f"the tables of a newer version ({version}; this one has {len(STEPS)})"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as reference:
        schema_migrations.expected(reference, version, steps_run)
        expected = _schema(reference)
    for key, sql in schema.items():
        if expected.get(key) != sql:
            kind, name = key
            return f"the {kind} {name[:_MAX_NAME]!r}, which is not as this program makes it"
    missing = next((name for key in expected if key not in schema for name in [key[1]]), "")
    return f"no {missing!r}" if missing else ""


def _schema(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Returns the SQL of everything in the schema but what SQLite makes by itself."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): _QUOTES.sub("", sql).lower()
        for kind, name, sql in rows
        if sql is not None and not (kind == "table" and name in _SQLITES)
    }


def _rows(path: Path, names: Sequence[str]) -> dict[str, tuple[tuple[str, ...], list[Any]]] | None:
    """Returns the columns and rows of the tables; None where one cannot be read as a whole."""
    if not path.exists():
        return None
    tables: dict[str, tuple[tuple[str, ...], list[Any]]] = {}
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            if foreign(path):
                return None
            for name in names:
                check = connection.execute(f"PRAGMA integrity_check('{name}')").fetchall()
                if check != [("ok",)]:
                    return None
                cursor = connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - constant names
                columns = tuple(column[0] for column in cursor.description)
                tables[name] = columns, cursor.fetchall()
    except sqlite3.Error:
        return None
    return tables


def _paired(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT DISTINCT device_id FROM device_grant WHERE revoked_at IS NULL"
    )
    return {device_id for (device_id,) in rows}
