"""Retention of sessions, and their removal: the only module that removes one."""

from dataclasses import dataclass
from pathlib import Path

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
    """A session as retention sees it."""

    session_id: SessionId
    key: str
    agent_id: str
    updated_at: int
    archived_at: int
    """0 while it is the present one of its key."""
    size: int
    """Bytes of its transcript file."""
    pinned: bool
    busy: bool
    """True while a run of its conversation is open."""


def retained(reader: Reader) -> list[RetainedSession]:
    """Returns every session, the one used longest ago first."""
    rows = reader.all(
        "SELECT session.session_id, key, agent_id, updated_at, archived_at, coalesce(size, 0),"
        " settings, key IN (SELECT session_key FROM run WHERE result IS NULL)"
        " FROM session LEFT JOIN mirror USING (session_id)"
        " ORDER BY updated_at, session.session_id"
    )
    return [
        RetainedSession(
            SessionId(session_id),
            key,
            agent_id,
            updated_at,
            archived_at,
            size,
            pinned=_settings.decode(settings_json).pinned,
            busy=bool(busy),
        )
        for session_id, key, agent_id, updated_at, archived_at, size, settings_json, busy in rows
    ]


def put_away(unit: Unit, session: RetainedSession, now: int) -> SessionEntry | None:
    """Archives a present session; None when somebody used it meanwhile."""
    entry = sessions.get(unit, session.session_id)
    open_run = unit.one(
        "SELECT 1 FROM run WHERE session_key = ? AND result IS NULL", (session.key,)
    )
    if entry is None or entry.archived or open_run or entry.updated_at != session.updated_at:
        return None
    return archive.put_away(unit, SessionKey.parse(entry.key), now)


def remove_file(reader: Reader, agents_dir: Path, session_id: str) -> None:
    """Removes the file of an archived session.

    It goes before the rows: where a crash comes between, the mirror writes it again and the next
    time both go.
    """
    entry = sessions.get(reader, session_id)
    if entry is not None and entry.archived:
        transcript_file(agents_dir, entry).unlink(missing_ok=True)


def remove(unit: Unit, session_id: str) -> bool:
    """Removes an archived session and all that was said in it; returns whether it was there still.

    Its texts are taken out of runs and their parts too. `wipe` takes what is left in the file.
    """
    deleted = unit.execute(
        "DELETE FROM session WHERE session_id = ? AND NOT current", (session_id,)
    )
    if not deleted:
        return False
    settled_runs.forget_session(unit, session_id)
    indexing.forget(unit, session_id)
    frozen_prompt.end(unit, session_id)
    unit.execute("DELETE FROM entry WHERE session_id = ?", (session_id,))
    spoken_entries.forget(unit, session_id)
    message_counts.remove(unit, session_id)
    unit.execute("DELETE FROM mirror WHERE session_id = ?", (session_id,))
    return True


async def wipe(store: Store) -> None:
    """Leaves nothing in the files of the sessions that were removed.

    The index is merged and the database written anew, about a second for each 100 MB.

    Raises:
        StoreFailedError: there is no room, say; the sessions are removed all the same.
    """
    await store.write(text_index.merge)
    await store.purge()
