"""Subscriptions to the events `sessions.changed` and `session.message`, and their encoding."""

from typing import ClassVar, Final

from skerry.gateway.attachments import has_images, without_images
from skerry.gateway.broadcast import MAX_TOPICS
from skerry.gateway.frames import PROTOCOL, Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params, RefusedError
from skerry.gateway.methods import rows
from skerry.gateway.methods.chat import transcript_line
from skerry.gateway.session_events import SESSIONS, messages_of
from skerry.model.session import SessionEntry, TranscriptEntry
from skerry.store import sessions

_EVENT_BYTES: Final = 256 * 1024
"""Maximum size of a message in an event, of which every subscriber gets a copy."""


class MessagesParams(Params):
    """Parameters of `sessions.messages.unsubscribe`."""

    key: Name
    agent_id: Name | None = None


class SubscribeParams(MessagesParams):
    """Parameters of `sessions.messages.subscribe`."""

    ignored: ClassVar = {"includeApprovals": "Approvals have events of their own."}


def sessions_subscribe(call: Call, _params: NoParams) -> Json:
    """Subscribes the client to the changes of every session."""
    _subscribe(call, SESSIONS)
    return {"subscribed": True}


def sessions_unsubscribe(call: Call, _params: NoParams) -> Json:
    """Ends that subscription."""
    call.context.broadcast.unsubscribe(call.connection_id, SESSIONS)
    return {"subscribed": False}


async def messages_subscribe(call: Call, params: SubscribeParams) -> Json:
    """Subscribes the client to the messages of a conversation."""
    key = str(call.session_key(params.key, params.agent_id))
    session = await call.context.store.read(lambda reader: sessions.find(reader, key))
    first = not call.context.broadcast.is_wanted(messages_of(key))
    _subscribe(call, messages_of(key))
    call.context.session_events.follow(key, session, first=first)
    return {"subscribed": True, "key": key}


def messages_unsubscribe(call: Call, params: MessagesParams) -> Json:
    """Ends that subscription."""
    key = str(call.session_key(params.key, params.agent_id))
    call.context.broadcast.unsubscribe(call.connection_id, messages_of(key))
    return {"subscribed": False, "key": key}


def _subscribe(call: Call, topic: str) -> None:
    if not call.context.broadcast.subscribe(call.connection_id, topic):
        raise RefusedError(f"the limit of {MAX_TOPICS} subscriptions is reached")


def session_row(session: SessionEntry) -> Json:
    """Encodes a session for its event."""
    return rows.row(session, PROTOCOL)


def session_line(entry: TranscriptEntry) -> bytes:
    """Encodes a message for its event; a large message without its images."""
    line = transcript_line(entry, PROTOCOL)
    if len(line) > _EVENT_BYTES and has_images(entry.message):
        return without_images(line)
    return line


METHODS: Final = (
    Method("sessions.subscribe", NoParams, sessions_subscribe),
    Method("sessions.unsubscribe", NoParams, sessions_unsubscribe),
    Method("sessions.messages.subscribe", SubscribeParams, messages_subscribe),
    Method("sessions.messages.unsubscribe", MessagesParams, messages_unsubscribe),
)
