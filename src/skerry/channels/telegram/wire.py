"""Updates of the Bot API, and their conversion to messages."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.sdk.channels import (
    AccountId,
    Attachment,
    AttachmentKind,
    ChannelId,
    InboundMessage,
    Peer,
    PeerKind,
    Quoted,
)

CHANNEL: Final = ChannelId("telegram")
UPDATES: Final = ("message", "edited_message", "channel_post", "callback_query")
"""Kinds of updates that are asked for."""
_PRESSED: Final = "cb:"
"""Begins the id of a message that a button made."""
_MAX_NAME: Final = 256


class User(Struct, frozen=True):
    """A person or a bot."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        """Returns the name that Telegram shows."""
        return f"{self.first_name} {self.last_name}".strip()[:_MAX_NAME]


class Chat(Struct, frozen=True):
    """A conversation."""

    id: int
    type: str
    title: str = ""
    is_forum: bool = False

    @property
    def peer(self) -> Peer:
        """Returns it as a peer."""
        kinds = {"private": PeerKind.DIRECT, "channel": PeerKind.CHANNEL}
        return Peer(kinds.get(self.type, PeerKind.GROUP), str(self.id))


class Entity(Struct, frozen=True):
    """A marked piece of a text; offsets count code units of UTF-16."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(Struct, frozen=True):
    """A file of any kind."""

    file_id: str
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""
    is_animated: bool = False
    is_video: bool = False


class Message(Struct, frozen=True):
    """A message; it has the files that its kind has."""

    message_id: int
    chat: Chat
    date: int = 0
    from_: User | None = field(default=None, name="from")
    sender_chat: Chat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    edit_date: int = 0
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    reply_to_message: "Message | None" = None
    forward_origin: dict[str, Any] | None = None
    via_bot: User | None = None
    photo: tuple[File, ...] = ()
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    document: File | None = None
    sticker: File | None = None

    @property
    def marks(self) -> tuple[Entity, ...]:
        """Returns the marked pieces of its text."""
        return self.entities or self.caption_entities


class Pressed(Struct, frozen=True):
    """A button that a person pressed."""

    id: str
    from_: User = field(name="from")
    message: Message | None = None
    data: str = ""


class Update(Struct, frozen=True):
    """One event."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    channel_post: Message | None = None
    callback_query: Pressed | None = None


class _Numbered(Struct, frozen=True):
    update_id: int


class SentMessage(Struct, frozen=True):
    """The message that a request made."""

    message_id: int = 0


updates = msgspec.json.Decoder(tuple[Raw, ...])
update = msgspec.json.Decoder(Update)
number_of = msgspec.json.Decoder(_Numbered)
user = msgspec.json.Decoder(User)
file_path = msgspec.json.Decoder(dict[str, object])
sent_message = msgspec.json.Decoder(SentMessage)


def inbound(event: Update, account: AccountId, me: User, now: int) -> InboundMessage | None:
    """Returns the message of an update; None when no person wrote it."""
    if event.callback_query is not None:
        return _pressed(event.callback_query, account, now)
    message = event.message or event.edited_message or event.channel_post
    if message is None or (message.from_ is None and message.sender_chat is None):
        return None
    text = _for_me(message.text or message.caption, message.marks, me)
    files = tuple(_files(message))
    if text is None or not (text or files):
        return None
    edited = event.edited_message is not None
    mentions = tuple(_mentions(message))
    sender, number = message.from_ or User(0), str(message.message_id)
    return InboundMessage(
        CHANNEL,
        account,
        message.chat.peer,
        _sender(message),
        text,
        f"{number}:{message.edit_date}" if edited else number,
        now,
        thread_id=_thread(message),
        sender_name=sender.name or (message.sender_chat.title if message.sender_chat else ""),
        sender_username=sender.username,
        group_name=message.chat.title[:_MAX_NAME],
        mentions_me=me.username.lower() in mentions or str(me.id) in mentions,
        mentions=mentions,
        reply=_quoted(message, me),
        attachments=files,
        edited=edited,
        forwarded=message.forward_origin is not None or message.via_bot is not None,
        sent_at=(message.edit_date or message.date) * 1000,
    )


def _sender(message: Message) -> str:
    """Returns the id of the writer: an anonymous administrator writes as the chat itself."""
    if message.sender_chat is not None:
        return str(message.sender_chat.id)
    return str(message.from_.id) if message.from_ else ""


def _pressed(pressed: Pressed, account: AccountId, now: int) -> InboundMessage | None:
    below = pressed.message
    if below is None or not pressed.data:
        return None
    return InboundMessage(
        CHANNEL,
        account,
        below.chat.peer,
        str(pressed.from_.id),
        pressed.data,
        _PRESSED + pressed.id,
        now,
        thread_id=_thread(below),
        sender_name=pressed.from_.name,
        sender_username=pressed.from_.username,
        group_name=below.chat.title[:_MAX_NAME],
        mentions_me=True,
        sent_at=now,
    )


def _thread(message: Message) -> str | None:
    """Returns the topic; the thread number of a reply outside of topics does not count."""
    if message.message_thread_id is None or not message.is_topic_message:
        return None
    return str(message.message_thread_id)


def _quoted(message: Message, me: User) -> Quoted | None:
    quoted = message.reply_to_message
    # The first message of a topic is quoted by all that answer nothing.
    if quoted is None or (
        message.is_topic_message and quoted.message_id == message.message_thread_id
    ):
        return None
    sender = quoted.from_ or User(0)
    return Quoted(
        str(quoted.message_id),
        _sender(quoted),
        sender.name,
        quoted.text or quoted.caption,
        is_me=sender.id == me.id,
    )


def _entity_text(text: str, entity: Entity) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    part = units[2 * entity.offset : 2 * (entity.offset + entity.length)]
    return part.decode("utf-16-le", "replace")


def _mentions(message: Message) -> Iterator[str]:
    text = message.text or message.caption
    for entity in message.marks:
        if entity.type == "mention":
            yield _entity_text(text, entity).removeprefix("@").lower()
        elif entity.type == "text_mention" and entity.user is not None:
            yield str(entity.user.id)


def _for_me(text: str, entities: Sequence[Entity], me: User) -> str | None:
    """Returns the text without the bot's name after its command; None for another bot's command."""
    command = next(
        (entity for entity in entities if entity.type == "bot_command" and not entity.offset), None
    )
    if command is None:
        return text
    name, _, bot = _entity_text(text, command).partition("@")
    if not bot:
        return text
    if bot.lower() != me.username.lower():
        return None
    return name + text[len(name) + 1 + len(bot) :]


def _files(message: Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.file_size)
        yield _attachment(AttachmentKind.IMAGE, largest, "image/jpeg", "photo.jpg")
    for kind, file, mime, name in (
        (AttachmentKind.AUDIO, message.voice, "audio/ogg", "voice.ogg"),
        (AttachmentKind.AUDIO, message.audio, "audio/mpeg", "audio.mp3"),
        (AttachmentKind.VIDEO, message.video, "video/mp4", "video.mp4"),
        (AttachmentKind.VIDEO, message.video_note, "video/mp4", "video.mp4"),
        (AttachmentKind.VIDEO, message.animation, "video/mp4", "animation.mp4"),
    ):
        if file is not None:
            yield _attachment(kind, file, mime, name)
    if message.document is not None and message.animation is None:
        is_image = message.document.mime_type.startswith("image/")
        kind = AttachmentKind.IMAGE if is_image else AttachmentKind.FILE
        yield _attachment(kind, message.document, "application/octet-stream", "file")
    if (sticker := message.sticker) is not None and not (sticker.is_animated or sticker.is_video):
        yield _attachment(AttachmentKind.IMAGE, sticker, "image/webp", "sticker.webp")


def _attachment(kind: AttachmentKind, file: File, mime: str, name: str) -> Attachment:
    return Attachment(
        kind,
        file.file_id,
        file.mime_type or mime,
        (file.file_name or name)[:_MAX_NAME],
        file.file_size,
    )


def pressed_id(message_id: str) -> str | None:
    """Returns the id of the pressed button that made a message; None for other messages."""
    return message_id.removeprefix(_PRESSED) if message_id.startswith(_PRESSED) else None


def plain_id(message_id: str) -> int | None:
    """Returns the number of the message that `message_id` names; None for a pressed button."""
    number = message_id.partition(":")[0]
    return int(number) if number.isdigit() else None
