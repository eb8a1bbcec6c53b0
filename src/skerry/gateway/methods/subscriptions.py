"""Methods by which a client asks for the events `sessions.changed` and `session.message`."""

from typing import ClassVar, Final

from skerry.gateway.broadcast import MAX_TOPICS
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.given import session_key
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError
from skerry.gateway.session_events import SESSIONS, messages_of
from skerry.store import sessions


class MessagesParams(Params):
    """Parameters of `sessions.messages.unsubscribe`."""

    key: Name
    agent_id: Name | None = None


class SubscribeParams(MessagesParams):
    """Parameters of `sessions.messages.subscribe`."""

    ignored: ClassVar = {"includeApprovals": "No agent has actions that need approval."}


def sessions_subscribe(call: Call, _params: NoParams) -> Json:
    """Tells the client of every session that changes."""
    _subscribe(call, SESSIONS)
    return {"subscribed": True}


def sessions_unsubscribe(call: Call, _params: NoParams) -> Json:
    """Tells the client no more of every session."""
    call.context.broadcast.unsubscribe(call.connection_id, SESSIONS)
    return {"subscribed": False}


async def messages_subscribe(call: Call, params: SubscribeParams) -> Json:
    """Tells the client what is said in a conversation."""
    key = str(session_key(call, params.key, params.agent_id))
    session = await call.context.store.read(lambda reader: sessions.find(reader, key))
    first = not call.context.broadcast.is_wanted(messages_of(key))
    _subscribe(call, messages_of(key))
    call.context.news.follow(key, session, first=first)
    return {"subscribed": True, "key": key}


def messages_unsubscribe(call: Call, params: MessagesParams) -> Json:
    """Tells the client no more of what is said in a conversation."""
    key = str(session_key(call, params.key, params.agent_id))
    call.context.broadcast.unsubscribe(call.connection_id, messages_of(key))
    return {"subscribed": False, "key": key}


def _subscribe(call: Call, topic: str) -> None:
    if not call.context.broadcast.subscribe(call.connection_id, topic):
        message = f"no more than {MAX_TOPICS} subscriptions"
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


METHODS: Final = (
    Method("sessions.subscribe", NoParams, sessions_subscribe),
    Method("sessions.unsubscribe", NoParams, sessions_unsubscribe),
    Method("sessions.messages.subscribe", SubscribeParams, messages_subscribe),
    Method("sessions.messages.unsubscribe", MessagesParams, messages_unsubscribe),
)
