"""Activities of the Bot Framework, and their conversion to messages."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from skerry.channels.msteams.markup import plain
from skerry.sdk.channel_files import kind_of
from skerry.sdk.channels import (
    AccountId,
    Attachment,
    ChannelId,
    InboundMessage,
    Peer,
    PeerKind,
)

CHANNEL: Final = ChannelId("msteams")
FILE: Final = "application/vnd.microsoft.teams.file.download.info"
CARD: Final = "application/vnd.microsoft.card.adaptive"
COMMAND: Final = "skerryCommand"
"""Field of a card's data with the command of a button."""
_KINDS: Final = {
    "personal": PeerKind.DIRECT,
    "groupchat": PeerKind.GROUP,
    "channel": PeerKind.CHANNEL,
}
_THREAD: Final = ";messageid="
_BOT: Final = "28:"
"""Begin of the ids of bots."""
_MAX_NAME: Final = 256
_MAX_MENTIONS: Final = 50
_MAX_FILES: Final = 16
_MAX_ID: Final = 256
_BY_TYPE: Final = {"image": {"png", "jpg", "jpeg", "gif", "webp"}, "audio": {"mp3", "wav", "ogg"}}


class Person(Struct, frozen=True, rename="camel"):
    """A person or a bot."""

    id: str = ""
    name: str | None = None
    aad_object_id: str = ""
    role: str = ""


class TeamsConversation(Struct, frozen=True, rename="camel"):
    """A chat, or a thread of a channel."""

    id: str = ""
    name: str | None = None
    conversation_type: str = ""


class Entity(Struct, frozen=True):
    """A mark in a text."""

    type: str = ""
    text: str = ""
    mentioned: Person | None = None


class File(Struct, frozen=True, rename="camel"):
    """A file, a picture or a card of a message."""

    content_type: str = ""
    content_url: str | None = None
    name: str | None = None
    content: Any = None


class Named(Struct, frozen=True):
    """A team, a channel or a tenant."""

    id: str = ""
    name: str | None = None


class ChannelData(Struct, frozen=True, rename="camel"):
    """Additions of Teams to an activity."""

    team: Named | None = None
    channel: Named | None = None
    event_type: str = ""


class Activity(Struct, frozen=True, rename="camel"):
    """One event."""

    type: str
    service_url: str
    id: str = ""
    channel_id: str = ""
    timestamp: str = ""
    from_: Person = field(name="from", default=Person())
    recipient: Person = Person()
    conversation: TeamsConversation = TeamsConversation()
    text: str | None = None
    entities: tuple[Entity, ...] | None = None
    attachments: tuple[File, ...] | None = None
    channel_data: ChannelData | None = None
    value: Any = None
    name: str = ""
    """Kind of an invocation."""


class SentActivity(Struct, frozen=True):
    """The answer to a message that was sent."""

    id: str = ""


activity = msgspec.json.Decoder(Activity)
sent = msgspec.json.Decoder(SentActivity)


def peer(event: Activity) -> tuple[Peer, str | None]:
    """Returns the chat of an activity, and the thread in it."""
    conversation = event.conversation
    kind = _KINDS.get(conversation.conversation_type.lower(), PeerKind.CHANNEL)
    chat_id, _, thread = conversation.id.partition(_THREAD)
    return Peer(kind, chat_id), thread or None


def conversation_id(chat_id: str, thread: str | None) -> str:
    """Returns the id under which a thread of a chat is addressed."""
    return f"{chat_id}{_THREAD}{thread}" if thread else chat_id


def inbound(event: Activity, account: AccountId, now: int) -> InboundMessage | None:
    """Returns the message of an activity; None when no person wrote it to the bot."""
    data = event.channel_data or ChannelData()
    edited = event.type == "messageUpdate" and data.event_type == "editMessage"
    if event.type == "messageDelete" and event.id:
        chat, thread = peer(event)
        sender_id = event.from_.aad_object_id or event.from_.id
        return InboundMessage(
            CHANNEL, account, chat, sender_id, "", "", now, thread_id=thread, deletes=event.id
        )
    if event.type != "message" and not edited:
        return None
    sender = event.from_
    is_person = sender.id and not sender.id.startswith(_BOT) and sender.role.lower() != "bot"
    if not is_person or not event.id or len(event.id) > _MAX_ID or not event.conversation.id:
        return None
    mentions = list(_mentions(event))
    me = event.recipient.id
    own_mentions = [text for text, person in mentions if person.id == me]
    other_mentions = [
        (text, person.name or "somebody") for text, person in mentions if person.id != me
    ]
    text = _command(event.value) or plain(event.text or "", own_mentions, other_mentions)
    files = tuple(_files(event))[:_MAX_FILES]
    if not text and not files:
        return None
    chat, thread = peer(event)
    return InboundMessage(
        CHANNEL,
        account,
        chat,
        sender.aad_object_id or sender.id,
        text,
        f"{event.id}:{event.timestamp}" if edited else event.id,
        now,
        thread_id=thread,
        sender_name=(sender.name or "")[:_MAX_NAME],
        group_name=_name(event, data, chat),
        mentions_me=bool(own_mentions) or bool(_command(event.value)),
        mentions=tuple(person.aad_object_id or person.id for _, person in mentions),
        attachments=files,
        edited=edited,
        team_id=data.team.id if data.team else "",
        sent_at=_milliseconds(event.timestamp),
    )


def _mentions(event: Activity) -> Iterator[tuple[str, Person]]:
    for entity in (event.entities or ())[:_MAX_MENTIONS]:
        if entity.type == "mention" and entity.text and entity.mentioned is not None:
            yield entity.text, entity.mentioned


def _command(value: Any) -> str:
    """Returns the command of the pressed button, which a person could write too."""
    command = value.get(COMMAND) if isinstance(value, dict) else None
    return command if isinstance(command, str) else ""


def _name(event: Activity, data: ChannelData, chat: Peer) -> str:
    if chat.kind is PeerKind.DIRECT:
        return ""
    channel = data.channel.name if data.channel else None
    return (event.conversation.name or channel or "")[:_MAX_NAME]


def _files(event: Activity) -> Iterator[Attachment]:
    for file in event.attachments or ():
        name = (file.name or "")[:_MAX_NAME]
        if file.content_type == FILE and isinstance(file.content, dict):
            url, ending = file.content.get("downloadUrl"), str(file.content.get("fileType", ""))
            if isinstance(url, str):
                major = next((m for m, ends in _BY_TYPE.items() if ending.lower() in ends), "")
                yield Attachment(kind_of(major), url, "", name)
        elif file.content_url and not file.content_type.startswith(("application/vnd.", "text/")):
            mime = "" if file.content_type.endswith("*") else file.content_type[:_MAX_NAME]
            yield Attachment(kind_of(file.content_type), file.content_url, mime, name)


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


def buttons(rows: tuple[tuple[Any, ...], ...]) -> dict[str, Any]:
    """Returns a card whose buttons send their commands."""
    actions = [
        {"type": "Action.Submit", "title": button.label[:80], "data": {COMMAND: button.command}}
        for row in rows
        for button in row
    ]
    content = {"type": "AdaptiveCard", "version": "1.4", "body": [], "actions": actions[:6]}
    return {"contentType": CARD, "content": content}
