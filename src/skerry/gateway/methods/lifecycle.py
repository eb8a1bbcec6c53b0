"""Tells plugins which sessions begin and end; nothing waits for them."""

from skerry.gateway.context import GatewayContext
from skerry.hooks.events import BeforeReset, SessionEnd, SessionStart
from skerry.model.ids import SessionKey
from skerry.model.session import SessionEntry
from skerry.store import Reader, sessions


def began(context: GatewayContext, session: SessionEntry, after: SessionEntry | None) -> None:
    """Tell that `session` began, and which one it follows."""
    point = context.hooks.session_start
    if point.handlers:
        point.start(
            SessionStart(
                agent_id=session.agent_id,
                session_key=session.key,
                session_id=session.session_id,
                resumed_from=after.session_id if after else None,
            )
        )


def ended(context: GatewayContext, session: SessionEntry | None, reason: str) -> None:
    """Tell that `session`, if there was one, was archived."""
    point = context.hooks.session_end
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


async def will_reset(context: GatewayContext, key: SessionKey, reason: str) -> None:
    """Tell that the conversation is about to begin anew, with what was said in it."""
    point = context.hooks.before_reset
    if not point.handlers:
        return

    def look(reader: Reader) -> BeforeReset | None:
        session = sessions.find(reader, str(key))
        if session is None:
            return None
        said = sessions.entries(reader, session.session_id, limit=-1)
        return BeforeReset(
            agent_id=session.agent_id,
            session_key=session.key,
            session_id=session.session_id,
            messages=tuple(one.message for one in said),
            reason=reason,
        )

    told = await context.store.read(look)
    if told is not None:
        point.start(told)
