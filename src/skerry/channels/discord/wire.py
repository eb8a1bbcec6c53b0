"""Events of Discord's gateway, and their conversion to messages."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.discord.markup import plain
from skerry.sdk.channel_files import kind_of
from skerry.sdk.channels import (
    AccountId,
    Attachment,
    ChannelId,
    InboundMessage,
    Peer,
    PeerKind,
    Quoted,
)

CHANNEL: Final = ChannelId("discord")
DIRECT: Final = 1
"""Type of a direct chat."""
COMMAND: Final = 2
"""Type of an interaction: a command of the menu."""
BUTTON: Final = 3
"""Type of an interaction: a button below a message."""
_THREADS: Final = frozenset({10, 11, 12})
_TEXT_TYPES: Final = frozenset({0, 19})
"""Types of messages that a person wrote: a plain one, and a reply."""
_FORWARD: Final = 1
_MAX_NAME: Final = 256
_EPOCH_MS: Final = 1_420_070_400_000
_SNOWFLAKE: Final = re.compile(r"\d{1,19}")
_ACTED: Final = "act:"
"""Begins the id of a message that an interaction made."""


class User(Struct, frozen=True):
    """A person or a bot."""

    id: str = ""
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str:
        """Returns the name that Discord shows outside of servers."""
        return (self.global_name or self.username)[:_MAX_NAME]


class Member(Struct, frozen=True):
    """A person on a server."""

    user: User | None = None
    nick: str | None = None
    roles: tuple[str, ...] = ()


class DiscordChannel(Struct, frozen=True):
    """A channel, a thread or a direct chat."""

    id: str = ""
    type: int = 0
    name: str | None = None
    parent_id: str | None = None
    guild_id: str | None = None
    recipients: tuple[User, ...] = ()

    @property
    def is_thread(self) -> bool:
        """Returns whether this is a thread of another channel."""
        return self.type in _THREADS and bool(self.parent_id)


class File(Struct, frozen=True):
    """A file of a message."""

    url: str = ""
    filename: str = ""
    size: int = 0
    content_type: str | None = None


class _Named(Struct, frozen=True):
    name: str = ""


class _Reference(Struct, frozen=True):
    type: int = 0


class _Snapshot(Struct, frozen=True):
    message: "Message"


class _Question(Struct, frozen=True):
    text: str = ""


class _Poll(Struct, frozen=True):
    question: _Question = _Question()


class _Emoji(Struct, frozen=True):
    id: str | None = None
    name: str | None = None


class Reaction(Struct, frozen=True):
    """An emoji on a message, and whether the bot set it."""

    emoji: _Emoji = _Emoji()
    me: bool = False


class Message(Struct, frozen=True):
    """A message."""

    id: str = ""
    channel_id: str = ""
    guild_id: str | None = None
    type: int = 0
    author: User = User()
    member: Member | None = None
    content: str = ""
    edited_timestamp: str | None = None
    webhook_id: str | None = None
    mentions: tuple[User, ...] = ()
    attachments: tuple[File, ...] = ()
    sticker_items: tuple[_Named, ...] = ()
    message_reference: _Reference | None = None
    referenced_message: "Message | None" = None
    message_snapshots: tuple[_Snapshot, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    poll: _Poll | None = None


class Deleted(Struct, frozen=True):
    """Messages that were deleted: one, or some at once."""

    channel_id: str = ""
    id: str = ""
    ids: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[str]:
        """Returns their ids."""
        return [number for number in (self.id, *self.ids) if _SNOWFLAKE.fullmatch(number)]


class _Option(Struct, frozen=True):
    value: str | int | float | bool = ""


class _Choice(Struct, frozen=True):
    name: str = ""
    custom_id: str = ""
    options: tuple[_Option, ...] = ()


class Interaction(Struct, frozen=True):
    """A command that a person chose, or a button that was pressed."""

    id: str = ""
    token: str = ""
    type: int = 0
    data: _Choice = _Choice()
    channel_id: str = ""
    channel: DiscordChannel | None = None
    guild_id: str | None = None
    member: Member | None = None
    user: User | None = None
    message: Message | None = None

    @property
    def person(self) -> User:
        """Returns the person who acted; on a server the member has the person."""
        return self.user or (self.member.user if self.member else None) or User()

    @property
    def command(self) -> str:
        """Returns the text of the command, as a person would write it."""
        if self.type == BUTTON:
            return self.data.custom_id
        if self.type != COMMAND or not self.data.name:
            return ""
        values = (str(option.value) for option in self.data.options)
        return " ".join((f"/{self.data.name}", *values)).strip()


class Frame(Struct, frozen=True):
    """One message of the gateway."""

    op: int
    d: Raw = field(default_factory=lambda: Raw(b"null"))
    s: int | None = None
    t: str | None = None


class Hello(Struct, frozen=True):
    """Beginning of a connection."""

    heartbeat_interval: int


class Ready(Struct, frozen=True):
    """Beginning of a session."""

    session_id: str
    resume_gateway_url: str
    user: User


class _Starts(Struct, frozen=True):
    remaining: int = 1
    reset_after: int = 0


class Address(Struct, frozen=True):
    """The gateway's address, and how many sessions may be started."""

    url: str
    session_start_limit: _Starts = _Starts()


frame = msgspec.json.Decoder(Frame)
hello = msgspec.json.Decoder(Hello)
ready = msgspec.json.Decoder(Ready)
truth = msgspec.json.Decoder(bool)
address = msgspec.json.Decoder(Address)
user = msgspec.json.Decoder(User)
member = msgspec.json.Decoder(Member)
conversation = msgspec.json.Decoder(DiscordChannel)
message = msgspec.json.Decoder(Message)
messages = msgspec.json.Decoder(tuple[Raw, ...])
deleted = msgspec.json.Decoder(Deleted)
interaction = msgspec.json.Decoder(Interaction)


def inbound(
    message: Message, channel: DiscordChannel, account: AccountId, me: User, now: int
) -> InboundMessage | None:
    """Returns the message; None when no person wrote it, or it is empty."""
    author = message.author
    if not author.id or author.bot or message.webhook_id or message.type not in _TEXT_TYPES:
        return None
    if not _SNOWFLAKE.fullmatch(message.id):
        return None
    content, files = message.content, message.attachments
    forwarded = not content and not files and bool(message.message_snapshots)
    if forwarded:
        content = message.message_snapshots[0].message.content
        files = message.message_snapshots[0].message.attachments
    if not content:
        content = " ".join(f"[sticker: {sticker.name[:100]}]" for sticker in message.sticker_items)
    text = plain(content, {user.id: user.name for user in message.mentions}, me.id)
    attachments = tuple(_files(files))
    if not (text or attachments):
        return None
    mentions = tuple(user.id for user in message.mentions)
    edited, nick = message.edited_timestamp, message.member.nick if message.member else None
    peer, thread, parent = chat_position(channel, author)
    return InboundMessage(
        CHANNEL,
        account,
        peer,
        author.id,
        text,
        f"{message.id}:{edited}" if edited else message.id,
        now,
        thread_id=thread,
        sender_name=(nick or author.name)[:_MAX_NAME],
        sender_username=author.username[:_MAX_NAME],
        group_name="" if peer.kind is PeerKind.DIRECT else (channel.name or "")[:_MAX_NAME],
        mentions_me=me.id in mentions,
        mentions=mentions,
        reply=_quoted(message, me),
        attachments=attachments,
        edited=bool(edited),
        forwarded=forwarded,
        parent=parent,
        guild_id=channel.guild_id or "",
        roles=message.member.roles if message.member else (),
        sent_at=time_of(message.id),
    )


def chat_position(channel: DiscordChannel, person: User) -> tuple[Peer, str | None, Peer | None]:
    """Returns the peer, the thread and the parent; the peer of a direct chat is its person.

    The peer of a thread is its parent channel, so that the rules of that channel hold in it.
    """
    if channel.type == DIRECT and not channel.guild_id:
        return Peer(PeerKind.DIRECT, person.id), None, None
    if channel.is_thread:
        parent = Peer(PeerKind.CHANNEL, channel.parent_id or "")
        return parent, channel.id, parent
    return Peer(PeerKind.CHANNEL, channel.id), None, None


def withdrawn(
    number: str, channel: DiscordChannel, account: AccountId, now: int
) -> InboundMessage | None:
    """Returns the deletion of a message; None in a direct chat whose person is unknown."""
    person = channel.recipients[0] if channel.recipients else User()
    peer, thread, _ = chat_position(channel, person)
    if not peer.id:
        return None
    return InboundMessage(CHANNEL, account, peer, "", "", "", now, thread, deletes=number)


def acted(
    act: Interaction, channel: DiscordChannel, account: AccountId, now: int
) -> InboundMessage:
    """Returns the command of a pressed button or of the menu as a message of the person."""
    person, nick = act.person, act.member.nick if act.member else None
    peer, thread, parent = chat_position(channel, person)
    return InboundMessage(
        CHANNEL,
        account,
        peer,
        person.id,
        act.command,
        _ACTED + act.id,
        now,
        thread_id=thread,
        sender_name=(nick or person.name)[:_MAX_NAME],
        sender_username=person.username[:_MAX_NAME],
        group_name="" if peer.kind is PeerKind.DIRECT else (channel.name or "")[:_MAX_NAME],
        mentions_me=True,
        parent=parent,
        guild_id=channel.guild_id or "",
        roles=act.member.roles if act.member else (),
        sent_at=now,
    )


def _quoted(message: Message, me: User) -> Quoted | None:
    quoted = message.referenced_message
    if quoted is None:
        return None
    author = quoted.author
    names = {user.id: user.name for user in quoted.mentions}
    text = plain(quoted.content, names, "")
    return Quoted(quoted.id, author.id, author.name, text, is_me=author.id == me.id)


def _files(files: tuple[File, ...]) -> Iterator[Attachment]:
    for file in files:
        if file.url:
            mime = (file.content_type or "").partition(";")[0].strip()
            kind = kind_of(mime)
            yield Attachment(kind, file.url, mime[:_MAX_NAME], file.filename[:_MAX_NAME], file.size)


def is_snowflake(text: str) -> bool:
    """Returns whether a text is an id of Discord."""
    return _SNOWFLAKE.fullmatch(text) is not None


def time_of(snowflake: str) -> int:
    """Returns the time at which an id was made, in milliseconds since 1970."""
    return (int(snowflake) >> 22) + _EPOCH_MS


def plain_id(message_id: str) -> str:
    """Returns Discord's id of a message; empty for an interaction, which is no message."""
    number = message_id.partition(":")[0]
    return number if is_snowflake(number) else ""


def since(message_id: str) -> int:
    """Returns the id after which an answer to the message must be; 0 when that is unknown.

    It is unknown for an edited message, which keeps its id: answers to its first text follow too.
    """
    number = message_id.removeprefix(_ACTED)
    return int(number) if is_snowflake(number) else 0
