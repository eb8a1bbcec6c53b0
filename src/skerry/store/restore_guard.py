"""Keeps a restore from reverting security state, and a backup from adding schema objects.

The devices are those of the replaced database, never those of the backup: otherwise a device that
was revoked, or a token that was rotated since the backup, would be valid again. The records of
files are kept too, because a restore does not change the workspaces.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.infra import sqlite
from skerry.infra.features import FEATURES, Feature
from skerry.store import schema_migrations, spoken_entries
from skerry.store.state_schema import STEPS
from skerry.store.unit import Unit

TABLES: Final = ("device_grant", "device_token", "device_request")
"""Tables that are never restored. Every table that grants access must be listed here."""
FROZEN: Final = ("frozen", "frozen_part", "frozen_text", "frozen_note")
"""Tables that a restore empties: stored prompts were assessed with the file records of their
time."""
RECORDS: Final = ("file_record", "channel_state")
"""Tables in which the rows of the replaced database take precedence; if one is unreadable, the
backup's rows are kept. The positions in `channel_state` never go back: a platform would send the
messages since then again. Features name further tables in `tables.KEPT`."""
DECISIONS: Final = ("approval", "allowlist", "audit")
"""Tables of decisions, which are never restored: a removed pattern stays removed, and an executed
call is not executed again. If they are unreadable, the audit log of the backup is kept, and the
others are emptied."""
SENDERS: Final = "paired_sender"
"""Table of the owner's decisions about senders of platforms, which is never restored: a sender who
was rejected or removed since the backup stays outside. If it is unreadable, only the rejections of
the backup are kept."""
WAITING: Final = ("pairing_request", "held_message")
"""Tables of what waits now: codes of senders, and messages that wait for more of the same sender.
The rows of a backup were decided or answered since. Unreadable codes are emptied."""
NUMBERS: Final = "spoken_to"
"""Table with the last number of a message, which must not go back: the cursors of plugins are in
databases of their own, and a plugin would pass over all messages up to its cursor."""
_FAR: Final = 1_000_000_000
"""Step of the numbers when the last one of the replaced database cannot be read."""
_QUOTES: Final = re.compile(r'[\s"`\[\]]+')
_SQLITES: Final = frozenset({"sqlite_sequence", *(f"sqlite_stat{n}" for n in range(1, 5))})
"""Tables that SQLite itself creates; its own indexes have no SQL."""
_MAX_NAME: Final = 80
"""Limit on the characters of a foreign name in an error."""


@dataclass(frozen=True, slots=True)
class KeptDevices:
    """Devices kept and dropped by a restore."""

    paired: int
    """Number of paired devices of the replaced database, which stay paired."""
    dropped: int
    """Number of paired devices of the backup that must pair again."""
    is_known: bool
    """True when the devices of the replaced database could be read."""
    senders_dropped: int = 0
    """Number of approved senders of the backup that are not approved any more."""


def keep(replaced: Path, restored: Path) -> KeptDevices:
    """Replaces the devices in `restored` with those of the replaced database.

    If they cannot be read, no device is paired, because revocations since the backup are unknown.
    """
    rows = _rows(replaced, TABLES)
    kept = (*RECORDS, *(name for feature in FEATURES if feature.tables for name in _kept(feature)))
    records = {name: _rows(replaced, (name,)) for name in kept}  # an older version may lack one
    decisions = {name: _rows(replaced, (name,)) for name in DECISIONS}
    numbers = _rows(replaced, (NUMBERS,))
    senders = _rows(replaced, (SENDERS,))
    waiting = {name: _rows(replaced, (name,)) for name in WAITING}
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
        for name in kept:
            _merge(connection, name, records[name])
        approved = _approved(connection)
        _keep_senders(connection, senders, waiting)
        _keep_numbers(connection, numbers)
        after = _paired(connection)
        connection.execute("COMMIT")
        dropped = len(approved - _approved(connection))
    return KeptDevices(len(after), len(before - after), rows is not None, dropped)


def _replace(
    connection: sqlite3.Connection,
    name: str,
    rows: dict[str, tuple[tuple[str, ...], list[Any]]] | None,
) -> None:
    """Replaces all rows of a table with those of the replaced database."""
    connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - constant names
    _merge(connection, name, rows)


def _merge(
    connection: sqlite3.Connection,
    name: str,
    rows: dict[str, tuple[tuple[str, ...], list[Any]]] | None,
) -> None:
    """Adds the rows of the replaced database to a table; they replace rows with the same key."""
    columns, stored = (rows or {}).get(name, ((), ()))
    listed = ", ".join(f'"{column}"' for column in columns)
    marks = ", ".join("?" * len(columns))
    if stored:
        insert = f'INSERT OR REPLACE INTO "{name}" ({listed}) VALUES ({marks})'  # noqa: S608 - columns of the schema
        connection.executemany(insert, stored)


def _keep_senders(
    connection: sqlite3.Connection,
    senders: dict[str, tuple[tuple[str, ...], list[Any]]] | None,
    waiting: Mapping[str, dict[str, tuple[tuple[str, ...], list[Any]]] | None],
) -> None:
    """Replaces the decisions about senders, and what waits, with those of the replaced database."""
    if senders is None:
        connection.execute(f"DELETE FROM {SENDERS} WHERE rejected = FALSE")  # noqa: S608 - constant
    else:
        _replace(connection, SENDERS, senders)
    for name, rows in waiting.items():
        if rows is not None or name == WAITING[0]:
            _replace(connection, name, rows)


def _keep_numbers(
    connection: sqlite3.Connection, rows: dict[str, tuple[tuple[str, ...], list[Any]]] | None
) -> None:
    """Numbers the messages of the backup, and sets the last number to that in use."""
    numbered = connection.execute(f"SELECT 1 FROM {NUMBERS}").fetchone()  # noqa: S608 - constant
    _, stored = (rows or {}).get(NUMBERS, ((), []))
    last = next((number for session_id, number in stored if not session_id), None)
    if last is None and (rows is not None or numbered is None):
        return  # no plugin reads messages
    unit = Unit(connection)
    present = spoken_entries.begin(unit)
    while spoken_entries.number(unit, None):
        pass  # some hundred messages of each session at a time
    newest = present + _FAR if last is None else last
    unit.execute(f"UPDATE {NUMBERS} SET seq = ? WHERE session_id = '' AND seq < ?", (newest,) * 2)  # noqa: S608 - constant


def _kept(feature: Feature) -> Sequence[str]:
    names: Sequence[str] = feature.load("tables:KEPT")
    return names


def foreign(path: Path) -> str:
    """Describes a schema object that no version of this program creates; empty without one.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            steps_run = schema_migrations.steps_done(connection)
            schema = _schema(connection)
    except sqlite3.DatabaseError:
        return ""  # the file is damaged, which another check reports
    if not 0 <= version <= len(STEPS):
        return f"the tables of a newer version ({version}; this one has {len(STEPS)})"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as reference:
        schema_migrations.expected(reference, version, steps_run)
        expected = _schema(reference)
    for key, sql in schema.items():
        if expected.get(key) != sql:
            kind, name = key
            return f"the {kind} {name[:_MAX_NAME]!r}, which this program does not create like this"
    missing = next((name for key in expected if key not in schema for name in [key[1]]), "")
    return f"no {missing!r}" if missing else ""


def _schema(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Returns the normalised SQL of all schema objects except SQLite's own, by type and name."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): _QUOTES.sub("", sql).lower()
        for kind, name, sql in rows
        if sql is not None and not (kind == "table" and name in _SQLITES)
    }


def _rows(path: Path, names: Sequence[str]) -> dict[str, tuple[tuple[str, ...], list[Any]]] | None:
    """Returns columns and rows of each table; None if one cannot be read completely."""
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


def _approved(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    sql = f"SELECT channel, account, sender_id FROM {SENDERS} WHERE rejected = FALSE"  # noqa: S608 - constant
    return set(connection.execute(sql))


def _paired(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT DISTINCT device_id FROM device_grant WHERE revoked_at IS NULL"
    )
    return {device_id for (device_id,) in rows}
