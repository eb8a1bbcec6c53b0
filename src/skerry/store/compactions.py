"""Compactions: summaries that replace earlier messages in requests; the messages stay stored."""

from typing import Any

from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.ids import SessionId
from skerry.model.message import CompactionMessage
from skerry.model.session import entry_id
from skerry.store import frozen_prompt, sessions
from skerry.store.unit import Reader, Unit

KIND = "compaction"


class CompactionState(Struct, frozen=True):
    """State of a session's compactions."""

    count: int = 0
    """Number of compactions."""
    flushed: int = -1
    """Number of compactions at the last flush of notes; -1 before the first flush."""
    seq: int = 0
    """Entry number of the last compaction; 0 without one."""
    last: CompactionMessage | None = None


def state(reader: Reader, session_id: str) -> CompactionState:
    """Returns the state of the session's compactions."""
    row = reader.one(
        "SELECT compactions, flushed, compacted, body FROM session LEFT JOIN entry"
        " ON entry.session_id = session.session_id AND seq = compacted"
        " WHERE session.session_id = ?",
        (session_id,),
    )
    if row is None:
        return CompactionState()
    count, flushed, seq, body = row
    try:
        return CompactionState(
            count, flushed, seq, message.decode_compaction(body) if body else None
        )
    except (TypeError, *UNREADABLE) as error:
        reader.broken(session_id, seq, str(error))
        return CompactionState(count, flushed)  # the messages that it replaced are still stored


def at(reader: Reader, session_id: str, seq: int) -> CompactionMessage:
    """Returns the compaction that is entry `seq` of a session."""
    row = reader.one("SELECT body FROM entry WHERE session_id = ? AND seq = ?", (session_id, seq))
    if row is None:
        raise LookupError(f"session {session_id} has no entry {seq}")
    return message.decode_compaction(row[0])


def pi_fields(summary: CompactionMessage) -> dict[str, Any]:
    """Returns the fields of a compaction's line in a pi session, without its id and time."""
    return {
        "summary": summary.text,
        "firstKeptEntryId": entry_id(summary.first_kept),
        "tokensBefore": summary.tokens_before,
        "details": {"readFiles": summary.read_files, "modifiedFiles": summary.modified_files},
    }


def add(
    unit: Unit,
    session_id: SessionId,
    tail: int,
    summary: CompactionMessage,
    now: int,
    tokens_after: int,
) -> int:
    """Writes the summary as the next entry; returns the new tail. The replaced entries are kept.

    Raises:
        StaleTailError: the transcript has other entries by now; the unit writes nothing.
    """
    seq = sessions.append(unit, session_id, tail, "", [summary], now)
    unit.execute(
        "UPDATE entry SET kind = ? WHERE session_id = ? AND seq = ?", (KIND, session_id, seq)
    )
    unit.execute(
        "UPDATE session SET compactions = compactions + 1, compacted = ?, total_tokens = ?"
        " WHERE session_id = ?",
        (seq, tokens_after, session_id),
    )
    frozen_prompt.drop_all(unit, session_id)  # the next request differs from its first message on
    return seq


def flushed(unit: Unit, session_id: str, now: int) -> None:
    """Marks the notes of the present compaction cycle as written."""
    unit.execute(
        "UPDATE session SET flushed = compactions, flushed_at = ? WHERE session_id = ?",
        (now, session_id),
    )
    unit.touched.append(session_id)
