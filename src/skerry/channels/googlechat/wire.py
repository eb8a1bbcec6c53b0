"""Interaction events of Google Chat, and their conversion to messages."""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from skerry.sdk.channel_files import kind_of
from skerry.sdk.channels import (
    AccountId,
    Attachment,
    ChannelId,
    InboundMessage,
    OutboundPart,
    Peer,
    PeerKind,
)

CHANNEL: Final = ChannelId("googlechat")
COMMAND: Final = "command"
"""Parameter of a button that carries its command."""
SPACE: Final = re.compile(r"spaces/[A-Za-z0-9_-]{1,128}")
THREAD: Final = re.compile(r"spaces/[A-Za-z0-9_-]{1,128}/threads/[A-Za-z0-9_.=-]{1,128}")
MESSAGE: Final = re.compile(r"spaces/[A-Za-z0-9_-]{1,128}/messages/[A-Za-z0-9_.=-]{1,128}")
_USER: Final = re.compile(r"users/[A-Za-z0-9_.@+-]{1,128}")
_RESOURCE: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9_/=+.-]{1,2048}")
_DIRECT: Final = frozenset({"DIRECT_MESSAGE", "DM"})
_GROUP: Final = frozenset({"GROUP_CHAT"})
_TEXT_EVENTS: Final = frozenset({"MESSAGE", "ADDED_TO_SPACE"})
_MAX_NAME: Final = 256
_MAX_FILES: Final = 16


class User(Struct, frozen=True, rename="camel"):
    """A person or an app."""

    name: str = ""
    display_name: str = ""
    email: str = ""
    type: str = ""


class Space(Struct, frozen=True, rename="camel"):
    """A conversation."""

    name: str = ""
    type: str = ""
    space_type: str = ""
    display_name: str = ""


class Thread(Struct, frozen=True):
    """A thread of a space."""

    name: str = ""


class Mention(Struct, frozen=True):
    """The person or app that a text mentions."""

    user: User = User()


class Annotation(Struct, frozen=True, rename="camel"):
    """A mark in a text."""

    type: str = ""
    user_mention: Mention = Mention()


class Data(Struct, frozen=True, rename="camel"):
    """Reference to an uploaded file."""

    resource_name: str = ""


class File(Struct, frozen=True, rename="camel"):
    """A file of a message."""

    content_name: str = ""
    content_type: str = ""
    attachment_data_ref: Data = Data()


class Message(Struct, frozen=True, rename="camel"):
    """A message of a person."""

    name: str = ""
    sender: User = User()
    create_time: str = ""
    text: str = ""
    argument_text: str | None = None
    thread: Thread = Thread()
    thread_reply: bool = False
    annotations: tuple[Annotation, ...] = ()
    attachment: tuple[File, ...] = ()


class Parameter(Struct, frozen=True):
    """A parameter of a button."""

    key: str = ""
    value: str = ""


class Action(Struct, frozen=True):
    """A button that was pressed."""

    parameters: tuple[Parameter, ...] = ()


class Common(Struct, frozen=True):
    """Parameters of a button in newer events."""

    parameters: dict[str, str] = field(default_factory=dict)


class GoogleChatEvent(Struct, frozen=True, rename="camel"):
    """An interaction event."""

    type: str
    event_time: str = ""
    space: Space = Space()
    user: User = User()
    message: Message | None = None
    action: Action | None = None
    common: Common | None = None


class SentMessage(Struct, frozen=True):
    """A message that was sent."""

    name: str = ""


event = msgspec.json.Decoder(GoogleChatEvent)
sent = msgspec.json.Decoder(SentMessage)


def client_id(part: OutboundPart) -> str:
    """Returns the unique id under which a part is sent."""
    return f"client-{hashlib.sha256(part.nonce.encode()).hexdigest()[:40]}"


def inbound(interaction: GoogleChatEvent, account: AccountId, now: int) -> InboundMessage | None:
    """Returns the message of an event; None when no person wrote it or pressed a button."""
    person, message = interaction.user, interaction.message
    is_person = person.type == "HUMAN" and _USER.fullmatch(person.name)
    if not is_person or not SPACE.fullmatch(interaction.space.name) or message is None:
        return None
    if not MESSAGE.fullmatch(message.name):
        return None
    files: tuple[Attachment, ...] = ()
    if interaction.type == "CARD_CLICKED":
        text, number = _command(interaction), f"{message.name}:{interaction.event_time}"
    elif interaction.type in _TEXT_EVENTS:
        text, number, files = _text(message), message.name, tuple(_files(message))
    else:
        return None
    if not text and not files:
        return None
    chat = _peer(interaction.space)
    mentions = [
        annotation.user_mention.user
        for annotation in message.annotations
        if annotation.type == "USER_MENTION"
    ]
    is_pressed = interaction.type == "CARD_CLICKED"
    return InboundMessage(
        CHANNEL,
        account,
        chat,
        person.name,
        text,
        number,
        now,
        thread_id=_thread(message, chat),
        sender_name=person.display_name[:_MAX_NAME],
        sender_username=person.email[:_MAX_NAME],
        group_name=interaction.space.display_name[:_MAX_NAME],
        mentions_me=is_pressed or any(user.type == "BOT" for user in mentions),
        mentions=tuple(user.name for user in mentions),
        attachments=files[:_MAX_FILES],
        sent_at=_milliseconds(interaction.event_time if is_pressed else message.create_time),
    )


def _peer(space: Space) -> Peer:
    kind = space.space_type or space.type
    if kind in _DIRECT:
        return Peer(PeerKind.DIRECT, space.name)
    return Peer(PeerKind.GROUP if kind in _GROUP else PeerKind.CHANNEL, space.name)


def _thread(message: Message, chat: Peer) -> str | None:
    """Returns the thread of a reply; a message that begins one is in the space itself."""
    is_one = chat.kind is not PeerKind.DIRECT and message.thread_reply
    return message.thread.name if is_one and THREAD.fullmatch(message.thread.name) else None


def _text(message: Message) -> str:
    """Returns the text without the mention of the app."""
    argument = message.argument_text
    return (message.text if argument is None else argument).strip()


def _command(interaction: GoogleChatEvent) -> str:
    """Returns the command of the pressed button, which a person could write too."""
    if interaction.common is not None and COMMAND in interaction.common.parameters:
        return interaction.common.parameters[COMMAND]
    parameters = interaction.action.parameters if interaction.action else ()
    return next((parameter.value for parameter in parameters if parameter.key == COMMAND), "")


def _files(message: Message) -> Iterator[Attachment]:
    for file in message.attachment:
        resource = file.attachment_data_ref.resource_name
        if _RESOURCE.fullmatch(resource):  # a file of Drive has none, and the app cannot read it
            kind = kind_of(file.content_type)
            mime, name = file.content_type[:_MAX_NAME], file.content_name[:_MAX_NAME]
            yield Attachment(kind, resource, mime, name)


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


def buttons(rows: tuple[tuple[Any, ...], ...]) -> list[dict[str, Any]]:
    """Returns a card whose buttons send their commands."""
    widgets = [
        {
            "text": button.label[:80],
            "onClick": {
                "action": {
                    "function": "skerry",
                    "parameters": [{"key": COMMAND, "value": button.command}],
                }
            },
        }
        for row in rows
        for button in row
    ]
    widget = {"buttonList": {"buttons": widgets[:20]}}
    return [{"cardId": "buttons", "card": {"sections": [{"widgets": [widget]}]}}]
