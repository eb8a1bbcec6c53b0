"""Adds kept lines of a transcript to the store again (see `store.recovered_lines`).

Entries that continue the end of their session are added to it. If the session has new entries
since, or is missing in the database, they become another session of the conversation. The origins
of the messages in such a file are trusted like those of the database: only the gateway's user can
write in its directory.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.ids import AgentId, SessionId, SessionKey
from skerry.model.message import (
    COMPACTION,
    CompactionMessage,
    Message,
    TextBlock,
    Usage,
    UserMessage,
    notice,
)
from skerry.model.session import Archived, SessionEntry, entry_id
from skerry.sessions.importing import FormatError, ImportedSession, paired, read
from skerry.store import (
    Unit,
    compactions,
    recovered_lines,
    session_import,
    sessions,
    unreadable_entries,
)
from skerry.store.recovered_lines import RecoveredFile
from skerry.store.session_import import ImportOutcome, IncomingSession
from skerry.store.unreadable_entries import BrokenEntry

_OPEN = 64
"""Number of last entries of a session that are searched for calls without results."""

_Entry = tuple[int, int, Message]
"""Number, time, message."""


class RecoveryOutcome(StrEnum):
    """Result of the recovery of kept lines."""

    ADDED = "added to its session"
    EARLIER = "imported as an earlier session"
    """Imported as a session of the same conversation, because it has new messages since."""
    IMPORTED = "imported"
    ALREADY_IMPORTED = "already there"


def look(about: RecoveredFile) -> ImportedSession:
    """Reads the file. Blocks.

    Raises:
        FormatError: the file is not a transcript.
        OSError: the file cannot be read.
    """
    with Path(about.file).open("rb") as lines:
        return read(lines)


def take(unit: Unit, about: RecoveredFile, now: int) -> RecoveryOutcome:
    """Reads the file, and writes the entries that the database lacks.

    Raises:
        FormatError: the file is not a transcript.
        OSError: the file cannot be read.
    """
    transcript = look(about)
    entries = list(entries_of(Path(about.file)))
    session_id = SessionId(about.session_id)
    session = sessions.get(unit, session_id)
    if session is None:
        messages = tuple(paired([(at, entry) for _, at, entry in _without_summaries(entries)]))
        key = _key(about)
        incoming = IncomingSession(key, session_id, transcript.created_at, messages)
        return _outcome(session_import.take(unit, incoming, now))
    stored = recovered_lines.ids(sessions.times(unit, session_id))
    missing = [
        entry
        for entry in entries
        if stored.get(entry_id(entry[0])) != (entry[0], recovered_lines.iso(entry[1]))
    ]
    if not missing:
        return RecoveryOutcome.ALREADY_IMPORTED
    if missing[0][0] == session.tail + 1:
        _go_on(unit, session, missing)
        return RecoveryOutcome.ADDED
    return _add_earlier_session(unit, session, missing, now)


def mend(unit: Unit, broken: BrokenEntry, files: Iterable[Path]) -> bool:
    """Replaces an unreadable entry with that of a transcript file; returns False if none has it.

    Raises:
        OSError: a file cannot be read.
    """
    for file in files:
        for seq, at, entry_message in entries_of(file):
            if seq == broken.seq:
                kind = compactions.KIND if isinstance(entry_message, CompactionMessage) else None
                unreadable_entries.mend(unit, broken, at, message.encode(entry_message), kind)
                return True
    return False


def accept(unit: Unit, broken: BrokenEntry, text: str, now: int) -> None:
    """Replaces an unreadable entry, which is given up, with a notice of the gateway.

    Notices are not sent to models, so the conversation continues as without the entry.
    """
    at = unreadable_entries.last_time(unit, broken.session_id, broken.seq) or now
    unreadable_entries.mend(unit, broken, at, message.encode(notice(text, at)))


def _go_on(unit: Unit, session: SessionEntry, missing: Sequence[_Entry]) -> None:
    """Adds the entries to the session whose end they continue."""
    before = sessions.entries(unit, session.session_id, limit=_OPEN)
    last = [
        (entry.at, entry.message) for entry in before if not sessions.is_compaction(entry.message)
    ]
    paired_before = len(list(paired(last)))
    tail, numbers = session.tail, iter(missing)
    messages = [entry for entry in missing if not isinstance(entry[2], CompactionMessage)]
    closed = list(paired([*last, *((at, entry) for _, at, entry in messages)]))[
        min(paired_before, len(last)) :
    ]
    summaries = {
        seq: (at, entry) for seq, at, entry in numbers if isinstance(entry, CompactionMessage)
    }
    for at, entry in closed:
        while (summary := summaries.pop(tail + 1, None)) is not None:
            tail = _summarise(unit, session, tail, summary)
        person_wrote_at = at if isinstance(entry, UserMessage) else 0
        tail = sessions.append(
            unit, session.session_id, tail, "", [entry], at, person_wrote_at=person_wrote_at
        )
    while (summary := summaries.pop(tail + 1, None)) is not None:
        tail = _summarise(unit, session, tail, summary)


def _summarise(unit: Unit, session: SessionEntry, tail: int, entry: tuple[int, Message]) -> int:
    at, summary = entry
    if not isinstance(summary, CompactionMessage):
        raise TypeError(f"{type(summary).__name__} is not a summary")
    return compactions.add(unit, session.session_id, tail, summary, at, session.total_tokens)


def _add_earlier_session(
    unit: Unit, session: SessionEntry, missing: Sequence[_Entry], now: int
) -> RecoveryOutcome:
    """Writes the entries as an earlier session of the conversation, once."""
    name = uuid5(NAMESPACE_OID, f"{session.session_id} {missing[0][0]} {missing[0][1]}")
    messages = tuple(paired([(at, entry) for _, at, entry in _without_summaries(missing)]))
    incoming = IncomingSession(
        SessionKey.parse(session.key), SessionId(str(name)), missing[0][1], messages, Archived.RESET
    )
    outcome = session_import.take(unit, incoming, now)
    return (
        RecoveryOutcome.ALREADY_IMPORTED
        if outcome is ImportOutcome.ALREADY_IMPORTED
        else RecoveryOutcome.EARLIER
    )


def _without_summaries(entries: Sequence[_Entry]) -> list[_Entry]:
    return [entry for entry in entries if not isinstance(entry[2], CompactionMessage)]


def _outcome(outcome: ImportOutcome) -> RecoveryOutcome:
    match outcome:
        case ImportOutcome.PRESENT:
            return RecoveryOutcome.IMPORTED
        case ImportOutcome.ARCHIVED:
            return RecoveryOutcome.EARLIER
        case ImportOutcome.ALREADY_IMPORTED:
            return RecoveryOutcome.ALREADY_IMPORTED


def _key(about: RecoveredFile) -> SessionKey:
    """Returns the key of the session's conversation; a new key if it is unknown."""
    agent = AgentId(about.agent)
    if about.key:
        return SessionKey.parse(about.key, agent)
    return SessionKey.parse(f"imported:{about.session_id}", agent)


def entries_of(file: Path) -> Iterator[_Entry]:
    """Yields the readable entries of a mirror file of this program, in order."""
    seqs: dict[str, int] = {}
    for line in recovered_lines.lines(file):
        try:
            record: Any = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if not isinstance(record, dict) or record.get("type") not in {"message", "compaction"}:
            continue
        seq = seqs.get(record.get("parentId") or "", 0) + 1
        name, at = record.get("id"), recovered_lines.milliseconds(record.get("timestamp"))
        if name != entry_id(seq) or at is None:
            continue  # not a line of this program
        seqs[name] = seq
        try:
            yield seq, at, _message(record, seqs, at)
        except (TypeError, *UNREADABLE):
            continue


def _message(record: dict[str, Any], seqs: dict[str, int], at: int) -> Message:
    """Returns the message of a line.

    Raises:
        ValueError: the message cannot be read.
    """
    if record["type"] == "message":
        return message.decode(msgspec.json.encode(record.get("message")))
    name, details = COMPACTION, record.get("details") or {}
    return CompactionMessage(
        (TextBlock(str(record.get("summary", ""))),),
        name[0],
        *name,
        Usage(),
        "stop",
        at,
        first_kept=seqs.get(str(record.get("firstKeptEntryId")), 1),
        tokens_before=int(record.get("tokensBefore") or 0),
        read_files=tuple(map(str, details.get("readFiles") or ())),
        modified_files=tuple(map(str, details.get("modifiedFiles") or ())),
    )


__all__ = ["FormatError", "RecoveryOutcome", "accept", "entries_of", "look", "take"]
