"""Entries that cannot be read: detected, skipped and reported, without losing other entries.

SQLite has no page checksums, so changed bytes inside a row are detected only when it is decoded.
"""

import sqlite3
from typing import Final

from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.store import message_counts
from skerry.store.condition import NO_TEXT
from skerry.store.unit import Parameters, Reader, Row, Unit

PAGE: Final = 500
"""Number of rows that are read at once."""
_RAW: Final = "seq, parent, at, CAST(run_id AS BLOB), CAST(kind AS BLOB), body"


class BrokenEntry(Struct, frozen=True):
    """An entry that cannot be read."""

    session_id: str
    seq: int
    reason: str

    @property
    def message(self) -> str:
        """Returns a sentence with the entry and the reason."""
        return f"entry {self.seq} of session {self.session_id} cannot be read: {self.reason}"


def rows(
    reader: Reader, session_id: str, columns: str, condition: str, parameters: Parameters
) -> list[Row]:
    """Returns rows of the session's entries; skips and reports those with invalid UTF-8.

    Args:
        reader: Reader of the store.
        session_id: Id of the session.
        columns: Columns, the first of them `seq`.
        condition: Conditions and order, as constant SQL.
        parameters: Parameters of `condition`.
    """
    source = f"FROM entry WHERE session_id = ? AND {condition}"
    try:
        return reader.all(f"SELECT {columns} {source}", (session_id, *parameters))
    except sqlite3.OperationalError as error:
        if not str(error).startswith(NO_TEXT):
            raise
    legible_rows = []
    for (seq,) in reader.all(f"SELECT seq {source}", (session_id, *parameters)):
        try:
            legible_rows += reader.all(
                f"SELECT {columns} FROM entry WHERE session_id = ? AND seq = ?",  # noqa: S608 - constant columns
                (session_id, seq),
            )
        except sqlite3.OperationalError as error:
            if not str(error).startswith(NO_TEXT):
                raise
            reader.broken(session_id, seq, str(error))
    return legible_rows


def raw_run(reader: Reader, serial: int) -> Row | None:
    """Returns run id, key and session id of a run as bytes, and its time and entry as numbers."""
    texts = ", ".join(f"CAST({name} AS BLOB)" for name in ("run_id", "session_key", "session_id"))
    return reader.one(
        f"SELECT {texts}, CAST(accepted_at AS INTEGER), CAST(entry AS INTEGER)"  # noqa: S608 - constant columns
        " FROM run WHERE serial = ?",
        (serial,),
    )


def last_time(reader: Reader, session_id: str, before: int) -> int | None:
    """Returns the latest valid time of the session's entries before `before`; None without one."""
    row = reader.one(
        "SELECT max(at) FROM entry WHERE session_id = ? AND seq < ? AND typeof(at) = 'integer'",
        (session_id, before),
    )
    return row[0] if row else None


def mend(unit: Unit, broken: BrokenEntry, at: int, body: bytes, kind: str | None = None) -> None:
    """Replaces an unreadable entry."""
    unit.execute(
        "UPDATE entry SET parent = ?, at = ?, run_id = '', kind = ?, body = ?"
        " WHERE session_id = ? AND seq = ?",
        (broken.seq - 1, at, kind, body, broken.session_id, broken.seq),
    )
    message_counts.recount(unit, broken.session_id)


def scan(reader: Reader) -> list[BrokenEntry]:
    """Returns every unreadable entry. Takes about 10 s for a million entries."""
    broken = []
    for (raw,) in reader.all("SELECT CAST(session_id AS BLOB) FROM session"):
        broken += scan_session(reader, bytes(raw).decode("utf-8", "replace"))
    return broken


def scan_session(reader: Reader, session_id: str) -> list[BrokenEntry]:
    """Returns the unreadable entries of the session."""
    broken, after = [], 0
    while page := reader.all(
        f"SELECT {_RAW} FROM entry WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {PAGE}",  # noqa: S608 - constants
        (session_id, after),
    ):
        broken += [BrokenEntry(session_id, row[0], fault) for row in page if (fault := _fault(row))]
        after = page[-1][0]
    return broken


def _fault(row: Row) -> str:
    """Returns why the row of an entry cannot be read; empty if it can."""
    _, parent, at, run_id, kind, body = row
    if not (isinstance(parent, int) and isinstance(at, int)):
        return "its parent or its time is not a number"
    try:
        for text in (run_id, kind):
            if text is not None:
                bytes(text).decode()
        message.decode(body)
    except (TypeError, *UNREADABLE) as error:
        return str(error)
    return ""
