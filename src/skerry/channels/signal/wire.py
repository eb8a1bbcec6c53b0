"""Events of signal-cli, and their conversion to messages."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

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

CHANNEL: Final = ChannelId("signal")
_MAX_NAME: Final = 256
_MAX_CARDS: Final = 20
_MAX_MENTIONS: Final = 100
"""Mentions whose names are inserted into a text; each takes time in proportion to the text."""
_GROUP, _PERSON = "g", "p"


class Mention(Struct, frozen=True, rename="camel"):
    """A person whom a text mentions; the text has one character in the place of the name."""

    number: str | None = None
    uuid: str | None = None
    name: str | None = None
    start: int = 0
    length: int = 0


class Quote(Struct, frozen=True, rename="camel"):
    """The message that a message answers; `id` is the time at which it was sent."""

    id: int = 0
    author_number: str | None = None
    author_uuid: str | None = None
    text: str | None = None


class File(Struct, frozen=True, rename="camel"):
    """A file of a message."""

    id: str | None = None
    content_type: str | None = None
    filename: str | None = None
    size: int | None = None


class Group(Struct, frozen=True, rename="camel"):
    """The group in which a message was written."""

    group_id: str = ""
    group_name: str | None = None


class Sticker(Struct, frozen=True, rename="camel"):
    """A sticker."""

    emoji: str | None = None


class _Name(Struct, frozen=True):
    display: str | None = None
    given: str | None = None
    family: str | None = None


class _Phone(Struct, frozen=True):
    value: str | None = None


class Card(Struct, frozen=True):
    """A contact that a person passes on."""

    name: _Name | None = None
    phone: tuple[_Phone, ...] | None = None

    @property
    def text(self) -> str:
        """Returns the contact on one line."""
        name = self.name or _Name()
        parts = [name.display] if name.display else [name.given, name.family]
        name_text = " ".join(part for part in parts if part)
        numbers = ", ".join(phone.value for phone in self.phone or () if phone.value)
        return f"[Contact: {name_text}{': ' if numbers else ''}{numbers}]"


class PollCreate(Struct, frozen=True):
    """A question to a conversation."""

    question: str | None = None
    options: tuple[str, ...] | None = None


class Data(Struct, frozen=True, rename="camel"):
    """The content of a message."""

    timestamp: int = 0
    message: str | None = None
    quote: Quote | None = None
    mentions: tuple[Mention, ...] | None = None
    attachments: tuple[File, ...] | None = None
    sticker: Sticker | None = None
    contacts: tuple[Card, ...] | None = None
    poll_create: PollCreate | None = None
    group_info: Group | None = None
    remote_delete: "Deletion | None" = None


class Deletion(Struct, frozen=True):
    """A message that its sender deleted; the time is that at which it was sent."""

    timestamp: int = 0


class Edit(Struct, frozen=True, rename="camel"):
    """A message that replaces another."""

    target_sent_timestamp: int = 0
    data_message: Data = Data()


class Envelope(Struct, frozen=True, rename="camel"):
    """Everything that one event is about."""

    source_number: str | None = None
    source_uuid: str | None = None
    source_name: str | None = None
    data_message: Data | None = None
    edit_message: Edit | None = None


class SignalEvent(Struct, frozen=True, rename="camel"):
    """One event of an account."""

    account: str | None = None
    envelope: Envelope = Envelope()


event = msgspec.json.Decoder(SignalEvent)


def inbound(
    received: SignalEvent, own_number: str, account: AccountId, now: int
) -> InboundMessage | None:
    """Returns the message of an event; None when no person wrote it to the account."""
    envelope = received.envelope
    sender = envelope.source_number or envelope.source_uuid or ""
    edit = envelope.edit_message
    data = edit.data_message if edit else envelope.data_message
    if data is None or not sender or own_number in {sender, envelope.source_uuid}:
        return None
    group = data.group_info
    peer = Peer(PeerKind.GROUP, group.group_id) if group else Peer(PeerKind.DIRECT, sender)
    if data.remote_delete is not None and data.remote_delete.timestamp:
        deleted_id = message_id(data.remote_delete.timestamp, sender)
        return InboundMessage(CHANNEL, account, peer, sender, "", "", now, deletes=deleted_id)
    text, files = _text(data), _files(data.attachments or (), peer)
    if not data.timestamp or not (text or files):
        return None
    mentions = tuple(mentioned for mention in data.mentions or () if (mentioned := _named(mention)))
    number = message_id(data.timestamp, sender)
    return InboundMessage(
        CHANNEL,
        account,
        peer,
        sender,
        text,
        f"{message_id(edit.target_sent_timestamp, sender)}:{data.timestamp}" if edit else number,
        now,
        sender_name=(envelope.source_name or "")[:_MAX_NAME],
        group_name=((group.group_name if group else "") or "")[:_MAX_NAME],
        mentions_me=own_number in mentions,
        mentions=mentions,
        reply=_quoted(data.quote, own_number),
        attachments=files,
        edited=edit is not None,
        sent_at=data.timestamp,
    )


def message_id(timestamp: int, author: str) -> str:
    """Returns the id of a message, which is its time and its author."""
    return f"{timestamp}/{author}"


def parsed_id(name: str) -> tuple[int, str] | None:
    """Returns time and author of a message, of an edited one the original's; None for other ids."""
    number, _, author = name.partition("/")
    author = author.partition(":")[0]
    right = number.isascii() and number.isdecimal() and len(number) <= 16 and author  # noqa: PLR2004 - milliseconds
    return (int(number), author) if right else None


def handle(peer: Peer, file_id: str) -> str:
    """Returns the handle of a file with its conversation, which signal-cli requires."""
    kind = _GROUP if peer.kind is PeerKind.GROUP else _PERSON
    return f"{kind} {peer.id} {file_id}"


def parsed_handle(text: str) -> tuple[Peer, str]:
    """Returns the conversation and the id of a file."""
    kind, name, file_id = [*text.split(" ", 2), "", ""][:3]
    return Peer(PeerKind.GROUP if kind == _GROUP else PeerKind.DIRECT, name), file_id


def _named(mention: Mention) -> str:
    return mention.number or mention.uuid or ""


def _text(data: Data) -> str:
    """Returns the text with the names of mentioned people; other contents in brackets."""
    parts = [_with_mentions(data.message or "", data.mentions or ())]
    if data.sticker is not None:
        parts.append(f"[Sticker {data.sticker.emoji}]" if data.sticker.emoji else "[Sticker]")
    parts += [card.text for card in (data.contacts or ())[:_MAX_CARDS]]
    if (poll := data.poll_create) is not None:
        options = ", ".join((poll.options or ())[:_MAX_CARDS])
        parts.append(f"[Poll: {poll.question or ''} Options: {options}]")
    return "\n".join(part for part in parts if part)


def _with_mentions(text: str, mentions: Sequence[Mention]) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    for mention in sorted(mentions[:_MAX_MENTIONS], key=lambda mention: -mention.start):
        if mention.start < 0 or mention.length < 0:
            continue
        name = f"@{mention.name or _named(mention)}"[:_MAX_NAME]
        begin, end = 2 * mention.start, 2 * (mention.start + mention.length)
        units = units[:begin] + name.encode("utf-16-le", "replace") + units[end:]
    return units.decode("utf-16-le", "replace")


def _files(files: Sequence[File], peer: Peer) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind_of(file.content_type),
            handle(peer, file.id),
            file.content_type or "",
            (file.filename or file.id)[:_MAX_NAME],
            file.size or 0,
        )
        for file in files
        if file.id
    )


def _quoted(quote: Quote | None, own_number: str) -> Quoted | None:
    author = (quote.author_number or quote.author_uuid or "") if quote else ""
    if quote is None or not quote.id:
        return None
    return Quoted(
        message_id(quote.id, author), author, text=quote.text or "", is_me=author == own_number
    )
