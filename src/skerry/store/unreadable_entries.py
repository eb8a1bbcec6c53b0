"""Entries that cannot be read: found, skipped and named, without the loss of those beside them.

SQLite keeps no checksum of a page, so bytes that change inside a row are noticed by who decodes it.
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
"""Rows that are read at once."""
_RAW: Final = "seq, parent, at, CAST(run_id AS BLOB), CAST(kind AS BLOB), body"


class BrokenEntry(Struct, frozen=True):
    """An entry that cannot be read."""

    session_id: str
    seq: int
    reason: str

    @property
    def message(self) -> str:
        """Returns which it is, and why."""
        return f"entry {self.seq} of session {self.session_id} cannot be read: {self.reason}"


def rows(
    reader: Reader, session_id: str, columns: str, condition: str, parameters: Parameters
) -> list[Row]:
    """Returns rows of the session's entries; those with a text that is none are left out and told.

    Args:
        reader: Of the store.
        session_id: Whose.
        columns: The first is `seq`.
        condition: Conditions and order, in SQL of ours.
        parameters: Of `condition`.
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
                f"SELECT {columns} FROM entry WHERE session_id = ? AND seq = ?",  # noqa: S608 - columns of ours
                (session_id, seq),
            )
        except sqlite3.OperationalError as error:
            if not str(error).startswith(NO_TEXT):
                raise
            reader.broken(session_id, seq, str(error))
    return legible_rows


def raw_run(reader: Reader, serial: int) -> Row | None:
    """Returns run id, key and session id of a run as bytes, its time and its entry as numbers."""
    texts = ", ".join(f"CAST({name} AS BLOB)" for name in ("run_id", "session_key", "session_id"))
    return reader.one(
        f"SELECT {texts}, CAST(accepted_at AS INTEGER), CAST(entry AS INTEGER)"  # noqa: S608 - constant columns
        " FROM run WHERE serial = ?",
        (serial,),
    )


def last_time(reader: Reader, session_id: str, before: int) -> int | None:
    """Returns the latest time of the session's entries before that one which have a time."""
    row = reader.one(
        "SELECT max(at) FROM entry WHERE session_id = ? AND seq < ? AND typeof(at) = 'integer'",
        (session_id, before),
    )
    return row[0] if row else None


def mend(unit: Unit, broken: BrokenEntry, at: int, body: bytes, kind: str | None = None) -> None:
    """Writes an entry in the place of one that cannot be read."""
    unit.execute(
        "UPDATE entry SET parent = ?, at = ?, run_id = '', kind = ?, body = ?"
        " WHERE session_id = ? AND seq = ?",
        (broken.seq - 1, at, kind, body, broken.session_id, broken.seq),
    )
    message_counts.recount(unit, broken.session_id)


def scan(reader: Reader) -> list[BrokenEntry]:
    """Returns every entry that cannot be read. It takes some 10 s for a million."""
    broken = []
    for (raw,) in reader.all("SELECT CAST(session_id AS BLOB) FROM session"):
        broken += scan_session(reader, bytes(raw).decode("utf-8", "replace"))
    return broken


def scan_session(reader: Reader, session_id: str) -> list[BrokenEntry]:
    """Returns the entries of the session that cannot be read."""
    broken, after = [], 0
    while page := reader.all(
        f"SELECT {_RAW} FROM entry WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {PAGE}",  # noqa: S608 - constants
        (session_id, after),
    ):
        broken += [BrokenEntry(session_id, row[0], fault) for row in page if (fault := _fault(row))]
        after = page[-1][0]
    return broken


def _fault(row: Row) -> str:
    """Returns why the row of an entry cannot be read; nothing where it can."""
    _, parent, at, run_id, kind, body = row
    if not (isinstance(parent, int) and isinstance(at, int)):
        return "its place or its time is no number"
    try:
        for text in (run_id, kind):
            if text is not None:
                bytes(text).decode()
        message.decode(body)
    except (TypeError, *UNREADABLE) as error:
        return str(error)
    return ""
