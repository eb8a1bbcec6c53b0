"""Numbers transcript entries in the order in which runs ended, for readers with a cursor.

An entry gets its number at the first read after its run ended. A number is never used again: it
survives restarts, summaries and erasures. Entries from before the first read have no number.
Without a reader nothing is written.
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
"""Limit on the entries of a session that one unit numbers, because other units wait for it."""
_COLUMNS: Final = (
    "SELECT session.session_id, coalesce(seq, 0), tail, (SELECT min(entry) FROM run"
    " WHERE run.session_id = session.session_id AND result IS NULL AND entry > 0) FROM session"
    " LEFT JOIN spoken_to ON spoken_to.session_id = session.session_id"
)
"""Selects of a session: id, last numbered entry, last entry, first entry of an open run."""

_LAST_NUMBER: Final = "SELECT seq FROM spoken_to WHERE session_id = ''"
"""Selects the last number in use."""
_NO_WORDS: Final = ("", "", Origin.STRANGER)


class SpokenRow(Struct, frozen=True):
    """One numbered entry."""

    serial: int
    session_key: str
    agent_id: str
    session_id: str
    run_id: str
    role: str
    """`user`, `assistant` or `tool`; empty for a summary, a command or a notice."""
    text: str
    """Text of the person or the assistant; empty for other entries and erased text."""
    at: int
    """Milliseconds since 1970."""
    origin: Origin
    """Author or source of the text; for a tool, the source of its result."""
    is_private: bool
    """True for the owner's own conversations."""
    seq: int = 0
    """Number of the entry in its session."""
    is_tainted: bool = False
    """True if its session had text of others up to this entry, which the owner has not cleared: an
    answer may repeat that text."""


def begin(unit: Unit) -> int:
    """Returns the last number; the first call skips all entries stored so far."""
    if not unit.all("SELECT 1 FROM spoken_to LIMIT 1"):
        passed = [("", 0)]
        for session_id, _, tail, first_open in unit.all(_COLUMNS):
            passed.append((session_id, _last(tail, first_open)))
        unit.executemany("INSERT INTO spoken_to (session_id, seq) VALUES (?, ?)", passed)
    ((number,),) = unit.all(_LAST_NUMBER)
    return int(number)


def number(unit: Unit, sessions: Collection[str] | None) -> bool:
    """Numbers new entries of these sessions, or of all; returns whether some remain."""
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
        # This update locks the counter until COMMIT, so that numbers follow the order of COMMITs.
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
    """Returns the last entry before those of an open run."""
    return tail if first_open is None else min(tail, first_open - 1)


def since(reader: Reader, cursor: int, limit: int) -> list[SpokenRow]:
    """Returns the entries with the next numbers, at most `limit`, in order."""
    rows = reader.all(
        "SELECT number, key, agent_id, entry.session_id, run_id, at, kind, body, entry.seq"
        " FROM spoken JOIN entry ON entry.session_id = spoken.session_id AND entry.seq = spoken.seq"
        " JOIN session ON session.session_id = spoken.session_id"
        " WHERE number > ? ORDER BY number LIMIT ?",
        (cursor, limit),
    )
    entries = []
    for serial, key, agent, session_id, run_id, at, kind, body, seq in rows:
        is_private = SessionKey.parse(key).is_owners
        role, text, origin = _NO_WORDS if kind is not None else _words(body)
        named = (serial, key, agent, session_id, run_id)
        entries.append(SpokenRow(*named, role, text, at, origin, is_private, seq))
    return entries


def forget(unit: Unit, session_id: str) -> None:
    """Removes the numbers of a session whose entries are removed."""
    unit.execute("DELETE FROM spoken WHERE session_id = ?", (session_id,))
    unit.execute("DELETE FROM spoken_to WHERE session_id = ?", (session_id,))


def _words(body: bytes) -> tuple[str, str, Origin]:
    try:
        entry = message.decode(body)
    except (TypeError, *UNREADABLE):
        logger.exception("an entry cannot be read and is passed to plugins without text")
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
