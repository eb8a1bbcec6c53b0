"""Messages of BlueBubbles, and their conversion to messages of the gateway."""

from collections.abc import Iterator
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

CHANNEL: Final = ChannelId("imessage")
TEXTED: Final = "sms:"
"""Prefix of the id of a sender whose message did not arrive by iMessage: anyone can send a text
message under any number."""
_SERVICE: Final = "imessage"
_ANY: Final = "any"
"""Begin of the ids of chats, since macOS 26, that do not name their service."""
DIRECT: Final = ";-;"
"""Part of the id of a chat with one person, before the address."""
_GROUP_STYLE: Final = 43
_OBJECT: Final = "\ufffc"
"""Placeholder of a file in a text."""
_MAX_NAME: Final = 256


class Handle(Struct, frozen=True):
    """A person: a phone number or an e-mail address."""

    address: str = ""
    service: str | None = None


class Chat(Struct, frozen=True, rename="camel"):
    """A conversation."""

    guid: str = ""
    style: int | None = None
    display_name: str | None = None

    @property
    def is_group(self) -> bool:
        """Returns whether it has several people."""
        return self.style == _GROUP_STYLE or (self.style is None and DIRECT not in self.guid)


class File(Struct, frozen=True, rename="camel"):
    """A file of a message."""

    guid: str = ""
    mime_type: str | None = None
    transfer_name: str | None = None
    total_bytes: int | None = None
    hide_attachment: bool | None = None


class Message(Struct, frozen=True, rename="camel"):
    """A row of the Mac's database of messages."""

    row: int = msgspec.field(default=0, name="originalROWID")
    guid: str = ""
    text: str | None = None
    handle: Handle | None = None
    chats: tuple[Chat, ...] | None = None
    attachments: tuple[File, ...] | None = None
    date_created: int | None = None
    date_edited: int | None = None
    date_retracted: int | None = None
    is_from_me: bool | None = None
    item_type: int | None = None
    associated_message_type: str | int | None = None
    thread_originator_guid: str | None = None
    error: int | None = None

    @property
    def words(self) -> str:
        """Returns the text without the marks of files."""
        return (self.text or "").replace(_OBJECT, "").strip()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of its files."""
        return tuple(file.transfer_name or "" for file in self.attachments or ())


class _Heading(Struct, frozen=True, rename="camel"):
    row: int = msgspec.field(default=0, name="originalROWID")
    guid: str = ""


class Info(Struct, frozen=True):
    """The server, as it describes itself."""

    server_version: str = ""
    private_api: bool = False
    helper_connected: bool = False
    detected_imessage: str | None = None


class Contact(Struct, frozen=True, rename="camel"):
    """A person of the Mac's address book."""

    display_name: str | None = None
    first_name: str | None = None
    last_name: str | None = None

    @property
    def name(self) -> str:
        """Returns the name."""
        parts = (self.first_name, self.last_name)
        return self.display_name or " ".join(part for part in parts if part)


class WebhookEvent(Struct, frozen=True):
    """The body of a webhook; its message is read again from the server."""

    type: str = ""
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


message = msgspec.json.Decoder(Message)
heading = msgspec.json.Decoder(_Heading)
info = msgspec.json.Decoder(Info)
contact = msgspec.json.Decoder(Contact)
event = msgspec.json.Decoder(WebhookEvent)


def inbound(
    row: Message, account: AccountId, now: int, *, edited: bool = False
) -> InboundMessage | None:
    """Returns the message of a row; None when no person wrote it to the account."""
    sender = row.handle.address if row.handle else ""
    chat = next(iter(row.chats or ()), None)
    if row.is_from_me or not sender or chat is None or not chat.guid or not row.guid:
        return None
    if row.item_type or row.associated_message_type or row.date_retracted:
        return None  # a change of the group, a tapback, or a message that was unsent
    files = tuple(_files(row))
    if not (row.words or files):
        return None
    is_verified = _is_verified(row.handle, chat)
    kind = PeerKind.GROUP if chat.is_group else PeerKind.DIRECT
    return InboundMessage(
        CHANNEL,
        account,
        Peer(kind, chat.guid),
        sender if is_verified else TEXTED + sender,
        row.words,
        f"{row.guid}:{row.date_edited}" if edited else row.guid,
        now,
        group_name=(chat.display_name or "")[:_MAX_NAME],
        reply=Quoted(row.thread_originator_guid) if row.thread_originator_guid else None,
        attachments=files,
        edited=edited,
        sent_at=(row.date_edited if edited else row.date_created) or 0,
        is_verified=is_verified,
    )


def _is_verified(person: Handle | None, chat: Chat) -> bool:
    """Returns whether Apple vouches for the sender, as it does for iMessage alone."""
    begin = chat.guid.partition(";")[0].lower()
    service = ((person.service if person else None) or "").lower()
    if begin == _ANY:
        return service == _SERVICE
    return begin == _SERVICE and service in {"", _SERVICE}


def quoted(row: Message) -> Quoted:
    """Returns the message that another answers."""
    sender = row.handle.address if row.handle and not row.is_from_me else ""
    return Quoted(row.guid, sender, text=row.words, is_me=bool(row.is_from_me))


def _files(row: Message) -> Iterator[Attachment]:
    for file in row.attachments or ():
        if file.guid and not file.hide_attachment:
            mime = file.mime_type or ""
            kind = kind_of(mime)
            name = (file.transfer_name or "file")[:_MAX_NAME]
            yield Attachment(kind, file.guid, mime, name, file.total_bytes or 0)
