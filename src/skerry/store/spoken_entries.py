"""Numbers what was said, in the order in which runs ended, for readers that keep a cursor.

A number is given once, at the first read after the run ended, and is never given again: it outlives
restarts, summaries and erasures. What was said before anybody read has none. Without a reader
nothing is written.
"""

import logging
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.ids import SessionKey
from skerry.model.message import COMMAND, NOTICE, AssistantMessage, ToolResultMessage, UserMessage
from skerry.model.origin import Origin
from skerry.store.unit import Reader, Unit

logger = logging.getLogger(__name__)

_MAX_ENTRIES: Final = 500
"""Entries of a session that one unit numbers; other units wait behind it."""
_COLUMNS: Final = (
    "SELECT session.session_id, coalesce(seq, 0), tail, (SELECT min(entry) FROM run"
    " WHERE run.session_id = session.session_id AND result IS NULL AND entry > 0) FROM session"
    " LEFT JOIN spoken_to ON spoken_to.session_id = session.session_id"
)
"""A session: the last entry with a number, the last entry, the first of a run under way."""

_LAST_NUMBER: Final = "SELECT seq FROM spoken_to WHERE session_id = ''"
"""The last number that was given."""
_NO_WORDS: Final = ("", "", Origin.STRANGER)


class SpokenRow(Struct, frozen=True):
    """One message of a person or the assistant."""

    serial: int
    session_key: str
    agent_id: str
    session_id: str
    run_id: str
    role: str
    """`user`, `assistant` or `tool`; empty of a summary, a command or a notice."""
    text: str
    """Words of the person or the assistant; empty of other entries, and where it was erased."""
    at: int
    """Milliseconds since 1970."""
    origin: Origin
    """Author or source of the words; of a tool, the source of its result."""
    is_private: bool
    """True when only the owner has such a conversation."""


def begin(unit: Unit) -> int:
    """Returns the last number; the first call passes over all that was said so far."""
    if not unit.all("SELECT 1 FROM spoken_to LIMIT 1"):
        passed = [("", 0)]
        for session_id, _, tail, first_open in unit.all(_COLUMNS):
            passed.append((session_id, _last(tail, first_open)))
        unit.executemany("INSERT INTO spoken_to (session_id, seq) VALUES (?, ?)", passed)
    ((number,),) = unit.all(_LAST_NUMBER)
    return int(number)


def number(unit: Unit, sessions: Collection[str] | None) -> bool:
    """Numbers the new entries of these sessions, or of all; returns whether more are left."""
    if sessions is None:
        rows = unit.all(
            f"{_COLUMNS} WHERE tail > coalesce(seq, 0) ORDER BY updated_at, session.session_id"
        )
    else:
        rows = [
            row
            for session_id in sorted(sessions)
            for row in unit.all(f"{_COLUMNS} WHERE session.session_id = ?", (session_id,))
        ]
    has_more = False
    for session_id, seq, tail, first_open in rows:
        end = _last(tail, first_open)
        last = min(end, seq + _MAX_ENTRIES)
        if last <= seq:
            continue
        has_more |= last < end
        # The row of the counter is locked until COMMIT, so that numbers are in its order.
        unit.execute("UPDATE spoken_to SET seq = seq + ? WHERE session_id = ''", (last - seq,))
        ((newest,),) = unit.all(_LAST_NUMBER)
        unit.executemany(
            "INSERT INTO spoken (number, session_id, seq) VALUES (?, ?, ?)",
            [(newest - last + entry, session_id, entry) for entry in range(seq + 1, last + 1)],
        )
        unit.execute(
            "INSERT INTO spoken_to (session_id, seq) VALUES (?, ?)"
            " ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq",
            (session_id, last),
        )
    return has_more


def _last(tail: int, first_open: int | None) -> int:
    """Returns the last entry that belongs to no run under way."""
    return tail if first_open is None else min(tail, first_open - 1)


def since(reader: Reader, cursor: int, limit: int) -> list[SpokenRow]:
    """Returns the entries with the next numbers, at most `limit`, in order."""
    rows = reader.all(
        "SELECT number, key, agent_id, entry.session_id, run_id, at, kind, body FROM spoken"
        " JOIN entry ON entry.session_id = spoken.session_id AND entry.seq = spoken.seq"
        " JOIN session ON session.session_id = spoken.session_id"
        " WHERE number > ? ORDER BY number LIMIT ?",
        (cursor, limit),
    )
    entries = []
    for serial, key, agent, session_id, run_id, at, kind, body in rows:
        is_private = SessionKey.parse(key).is_owners
        role, text, origin = _NO_WORDS if kind is not None else _words(body)
        entries.append(
            SpokenRow(serial, key, agent, session_id, run_id, role, text, at, origin, is_private)
        )
    return entries


def forget(unit: Unit, session_id: str) -> None:
    """Removes the numbers of a session whose entries are removed."""
    unit.execute("DELETE FROM spoken WHERE session_id = ?", (session_id,))
    unit.execute("DELETE FROM spoken_to WHERE session_id = ?", (session_id,))


def _words(body: bytes) -> tuple[str, str, Origin]:
    try:
        entry = message.decode(body)
    except (TypeError, *UNREADABLE):
        logger.exception("an entry cannot be read; plugins do not get it")
        return _NO_WORDS
    match entry:
        case UserMessage() if not entry.text.startswith("/"):
            return "user", entry.text, entry.origin
        case AssistantMessage() if (entry.provider, entry.model) not in {COMMAND, NOTICE}:
            return "assistant", entry.text, entry.origin or Origin.LOCAL
        case ToolResultMessage():
            return "tool", "", entry.origin
        case _:
            return _NO_WORDS
