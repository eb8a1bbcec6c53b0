"""Retention of sessions, and their removal; no other module removes sessions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import SessionEntry, SessionSettings
from skerry.store import (
    archive,
    frozen_prompt,
    indexing,
    message_counts,
    sessions,
    settled_runs,
    spoken_entries,
    text_index,
)
from skerry.store.mirror import transcript_file
from skerry.store.store import Store
from skerry.store.unit import Reader, Unit

_settings = msgspec.json.Decoder(SessionSettings)


@dataclass(frozen=True, slots=True)
class RetainedSession:
    """The facts of a session that retention needs."""

    session_id: SessionId
    key: str
    agent_id: str
    updated_at: int
    archived_at: int
    """Time in milliseconds since 1970; 0 for a present session."""
    size: int
    """Bytes of its transcript file."""
    pinned: bool
    busy: bool
    """True while a run of its conversation is open."""
    person_wrote: bool = True
    """True when a person wrote in it."""


def retained(reader: Reader) -> list[RetainedSession]:
    """Returns every session, the one used longest ago first."""
    rows = reader.all(
        "SELECT session.session_id, key, agent_id, updated_at, archived_at, coalesce(size, 0),"
        " settings, key IN (SELECT session_key FROM run WHERE result IS NULL), user_at > 0"
        " FROM session LEFT JOIN mirror USING (session_id)"
        " ORDER BY updated_at, session.session_id"
    )
    return [_retained(row) for row in rows]


def _retained(row: tuple[Any, ...]) -> RetainedSession:
    session_id, key, agent_id, updated_at, archived_at, size, settings_json, busy, wrote = row
    return RetainedSession(
        SessionId(session_id),
        key,
        agent_id,
        updated_at,
        archived_at,
        size,
        pinned=_settings.decode(settings_json).pinned,
        busy=bool(busy),
        person_wrote=bool(wrote),
    )


def archive_unused(unit: Unit, session: RetainedSession, now: int) -> SessionEntry | None:
    """Archives a present session; returns None if it was used meanwhile."""
    entry = sessions.get(unit, session.session_id)
    open_run = unit.one(
        "SELECT 1 FROM run WHERE session_key = ? AND result IS NULL", (session.key,)
    )
    if entry is None or entry.archived or open_run or entry.updated_at != session.updated_at:
        return None
    return archive.archive_unused(unit, SessionKey.parse(entry.key), now)


def remove_file(reader: Reader, agents_dir: Path, session_id: str) -> None:
    """Deletes the transcript file of an archived session; call it before `remove`.

    After a crash in between the mirror writes the file again, and the next removal deletes both.
    """
    entry = sessions.get(reader, session_id)
    if entry is not None and entry.archived:
        transcript_file(agents_dir, entry).unlink(missing_ok=True)


def remove(unit: Unit, session_id: str) -> bool:
    """Removes an archived session with its entries; returns False if it is not archived or missing.

    Its texts are removed from runs and their parts too. `wipe` removes the traces in the file.
    """
    deleted = unit.execute(
        "DELETE FROM session WHERE session_id = ? AND NOT current", (session_id,)
    )
    if not deleted:
        return False
    settled_runs.forget_session(unit, session_id)
    indexing.forget(unit, session_id)
    frozen_prompt.drop_all(unit, session_id)
    unit.execute("DELETE FROM entry WHERE session_id = ?", (session_id,))
    spoken_entries.forget(unit, session_id)
    message_counts.remove(unit, session_id)
    unit.execute("DELETE FROM mirror WHERE session_id = ?", (session_id,))
    return True


async def wipe(store: Store) -> None:
    """Removes the text of removed sessions from unused pages of the files.

    Merges the index and rewrites the database, about a second for each 100 MB.

    Raises:
        StoreFailedError: a write failed, for example on a full disk; the sessions stay removed.
    """
    await store.write(text_index.merge)
    await store.purge()
