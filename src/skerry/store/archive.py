"""Archives, restores and changes sessions; their transcripts are kept.

A session is present (its key refers to it) or archived; the name of its file has the reason. The
caller ensures that no run of the conversation is active: the run would continue to write.
"""

import msgspec
from msgspec.structs import replace

from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import Archived, SessionEntry, SessionSettings
from skerry.store import frozen_prompt, sessions
from skerry.store.unit import Reader, Unit


def reset(
    unit: Unit, key: SessionKey, new_id: SessionId, now: int, *, expired: bool = False
) -> SessionEntry | None:
    """Archives the present session and begins `new_id`; returns the archived one, None without one.

    The new session keeps the label and the settings except the model; after `expired`, the label
    and the settings that belong to the conversation (`SessionSettings.after_expiry`).
    """
    old = _archive(unit, key, Archived.RESET, now)
    sessions.begin(unit, key, new_id, now)
    if old is not None:
        settings = old.settings.after_expiry() if expired else old.settings.after_reset()
        change(unit, new_id, label=old.label, settings=settings)
    return old


def archive_unused(unit: Unit, key: SessionKey, now: int) -> SessionEntry | None:
    """Archives the session of an unused conversation; `/resume` restores it. None without one.

    It is archived as reset, not as deleted, so that the search still finds it.
    """
    return _archive(unit, key, Archived.RESET, now)


def last_archived(reader: Reader, key: SessionKey) -> SessionEntry | None:
    """Returns the last archived session of a conversation without a present one.

    None if the last session was deleted, or if no person wrote in it.
    """
    row = reader.one(
        f"SELECT {sessions.COLUMNS} FROM session WHERE key = ? AND NOT current"  # noqa: S608 - constant columns
        " ORDER BY archived_at DESC, created_at DESC, session_id LIMIT 1",
        (str(key),),
    )
    last = None if row is None else sessions.entry(row)
    return last if last is not None and last.archived is Archived.RESET and last.user_at else None


def delete(unit: Unit, key: SessionKey, now: int) -> SessionEntry | None:
    """Archives the present session as deleted; returns it, None if the conversation had none."""
    return _archive(unit, key, Archived.DELETED, now)


def restore(unit: Unit, session: SessionEntry, now: int) -> SessionEntry | None:
    """Makes an archived session the present one; returns the session that it displaced.

    Its last use is set to `now`: otherwise the next message would expire it again.
    """
    displaced = _archive(unit, SessionKey.parse(session.key), Archived.RESET, now)
    unit.execute(
        "UPDATE session SET current = TRUE, archived = NULL, archived_at = 0,"
        " user_at = CASE WHEN user_at < ? THEN ? ELSE user_at END WHERE session_id = ?",
        (now, now, session.session_id),
    )
    unit.touched.append(session.session_id)
    return displaced


def earlier(reader: Reader, key: str, limit: int) -> list[SessionEntry]:
    """Returns the reset sessions of the conversation in which a person wrote, the latest first."""
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE key = ? AND archived = ? AND user_at > 0"  # noqa: S608 - constant columns
        " ORDER BY archived_at DESC, created_at DESC, session_id LIMIT ?",
        (key, Archived.RESET, limit),
    )
    return [sessions.entry(row) for row in rows]


def reset_before(reader: Reader, key: str, before: int, limit: int) -> list[SessionId]:
    """Returns sessions of the conversation that were reset before a time, the oldest first."""
    rows = reader.all(
        "SELECT session_id FROM session WHERE key = ? AND archived = ? AND archived_at < ?"
        " ORDER BY archived_at, session_id LIMIT ?",
        (key, Archived.RESET, before, limit),
    )
    return [SessionId(session_id) for (session_id,) in rows]


def change(unit: Unit, session_id: str, *, label: str, settings: SessionSettings) -> None:
    """Writes the session's label and settings."""
    unit.execute(
        "UPDATE session SET label = ?, settings = ?, pinned = ?, spawned_by = ?"
        " WHERE session_id = ?",
        (
            label,
            msgspec.json.encode(settings),
            settings.pinned,
            settings.spawned_by or "",
            session_id,
        ),
    )
    unit.touched.append(session_id)


def _archive(unit: Unit, key: SessionKey, reason: Archived, now: int) -> SessionEntry | None:
    session = sessions.find(unit, str(key))
    if session is None:
        return None
    unit.execute(
        "UPDATE session SET current = FALSE, archived = ?, archived_at = ? WHERE session_id = ?",
        (reason, now, session.session_id),
    )
    frozen_prompt.drop_all(unit, session.session_id)
    unit.touched.append(session.session_id)
    return replace(session, archived=reason, archived_at=now)
