"""Ends, brings back and changes sessions; nothing that was said is destroyed.

A session is present (its key names it) or archived, for the reason that its file's name tells. Who
calls makes sure that no run of the conversation is at work: it would write on.
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
    """Begins the conversation anew as `new_id`; returns the session that is archived, if there was.

    The label and the settings, but the model, hold on; of one that `expired`, the label and what
    belongs to the conversation.
    """
    old = _archive(unit, key, Archived.RESET, now)
    sessions.begin(unit, key, new_id, now)
    if old is not None:
        settings = old.settings.after_expiry() if expired else old.settings.after_reset()
        change(unit, new_id, label=old.label, settings=settings)
    return old


def put_away(unit: Unit, key: SessionKey, now: int) -> SessionEntry | None:
    """Archives the session of an unused conversation, if it has one; `/resume` brings it back.

    It is no deleted one: nobody wanted it gone, so that the search finds it.
    """
    return _archive(unit, key, Archived.RESET, now)


def last_put_away(reader: Reader, key: SessionKey) -> SessionEntry | None:
    """Returns the session that was put away of a conversation which has none at present.

    None where somebody deleted the last one, or nobody spoke in it.
    """
    row = reader.one(
        f"SELECT {sessions.COLUMNS} FROM session WHERE key = ? AND NOT current"  # noqa: S608 - constant columns
        " ORDER BY archived_at DESC, created_at DESC, session_id LIMIT 1",
        (str(key),),
    )
    last = None if row is None else sessions.entry(row)
    return last if last is not None and last.archived is Archived.RESET and last.user_at else None


def delete(unit: Unit, key: SessionKey, now: int) -> SessionEntry | None:
    """Takes the conversation off the list; returns its session, which is archived, if there was."""
    return _archive(unit, key, Archived.DELETED, now)


def restore(unit: Unit, session: SessionEntry, now: int) -> SessionEntry | None:
    """Makes an archived session the present one again; returns the one whose place it takes.

    It is as fresh as if somebody had just spoken in it: else the next message would end it again.
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
    """Returns sessions of the conversation that were reset after a person spoke, the last first."""
    rows = reader.all(
        f"SELECT {sessions.COLUMNS} FROM session WHERE key = ? AND archived = ? AND user_at > 0"  # noqa: S608 - constant columns
        " ORDER BY archived_at DESC, created_at DESC, session_id LIMIT ?",
        (key, Archived.RESET, limit),
    )
    return [sessions.entry(row) for row in rows]


def reset_before(reader: Reader, key: str, before: int, limit: int) -> list[SessionId]:
    """Returns sessions of the conversation that were reset before a time, the first first."""
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
    frozen_prompt.end(unit, session.session_id)
    unit.touched.append(session.session_id)
    return replace(session, archived=reason, archived_at=now)
