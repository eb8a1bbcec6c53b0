"""Calls the hooks of plugins for the start and the end of sessions, without waiting for them."""

import logging

from skerry.hooks.events import BeforeReset, SessionEnd, SessionStart
from skerry.hooks.hooks import Hooks
from skerry.model.errors import StateError
from skerry.model.ids import SessionId, SessionKey
from skerry.model.session import SessionEntry
from skerry.sessions.session_choice import RESTORE, OpenedSession
from skerry.store import Reader, Store, sessions

logger = logging.getLogger(__name__)


def start(
    hooks: Hooks, key: SessionKey, session_id: SessionId, after: SessionEntry | None = None
) -> None:
    """Calls `session_start` for a new or restored session; `after` is the session before it."""
    point = hooks.session_start
    if point.handlers:
        point.start(
            SessionStart(
                agent_id=key.agent,
                session_key=str(key),
                session_id=session_id,
                resumed_from=after.session_id if after else None,
            )
        )


def ended(hooks: Hooks, session: SessionEntry | None, reason: str) -> None:
    """Calls `session_end` for the archived session, if any."""
    point = hooks.session_end
    if session is not None and point.handlers:
        point.start(
            SessionEnd(
                agent_id=session.agent_id,
                session_key=session.key,
                session_id=session.session_id,
                message_count=session.tail,
                duration_ms=max(session.archived_at - session.created_at, 0),
                reason=reason,
            )
        )


async def will_reset(hooks: Hooks, store: Store, session: SessionEntry | None, reason: str) -> None:
    """Calls `before_reset` with the messages of the session that a reset ends, if any."""
    point = hooks.before_reset
    if session is None or not point.handlers:
        return

    def look(reader: Reader) -> BeforeReset:
        entries = sessions.entries(reader, session.session_id, limit=-1)
        return BeforeReset(
            agent_id=session.agent_id,
            session_key=session.key,
            session_id=session.session_id,
            messages=tuple(entry.message for entry in entries),
            reason=reason,
        )

    point.start(await store.read(look))


async def opened(hooks: Hooks, store: Store, session: OpenedSession) -> None:
    """Calls the hooks for the session that a message has opened, and for the one that it ended.

    They are called after the COMMIT of the message; the entries of the old session still exist.
    """
    old = session.ended
    if old is not None and session.reason != RESTORE:
        try:
            await will_reset(hooks, store, old, session.reason)
        except StateError:
            # The message is already accepted.
            logger.exception("before_reset was not called for session %s", old.session_id)
    ended(hooks, old, session.reason)
    start(hooks, session.request.key, session.session_id, old)
