"""Events of the Cloud API, and their conversion to messages."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.whatsapp.api import Failure
from skerry.channels.whatsapp.content import MessageContent
from skerry.sdk.channels import AccountId, ChannelId, InboundMessage, Peer, PeerKind, Quoted

CHANNEL: Final = ChannelId("whatsapp")
_MAX_NAME: Final = 256


class ContactProfile(Struct, frozen=True):
    """Names that a person chose."""

    name: str = ""
    username: str = ""


class Contact(Struct, frozen=True):
    """A person; `wa_id` is missing for one who hides the number."""

    wa_id: str = ""
    user_id: str = ""
    profile: ContactProfile = ContactProfile()


class Context(Struct, frozen=True):
    """The message that a message answers."""

    id: str = ""
    from_: str = field(default="", name="from")
    forwarded: bool = False
    frequently_forwarded: bool = False


class Edit(Struct, frozen=True):
    """A message that replaces another."""

    original_message_id: str = ""
    message: MessageContent = MessageContent()


class Message(MessageContent, frozen=True):
    """A message as it arrives."""

    id: str = ""
    from_: str = field(default="", name="from")
    from_user_id: str = ""
    group_id: str = ""
    timestamp: str = "0"
    context: Context = Context()
    edit: Edit | None = None


class MessageStatus(Struct, frozen=True):
    """A delivery status of a message of the business."""

    id: str = ""
    status: str = ""
    biz_opaque_callback_data: str = ""
    errors: tuple[Failure, ...] = ()


class NumberMetadata(Struct, frozen=True):
    """The number that an event is about."""

    display_phone_number: str = ""
    phone_number_id: str = ""


class Value(Struct, frozen=True):
    """Messages and statuses of one number."""

    metadata: NumberMetadata = NumberMetadata()
    contacts: tuple[Contact, ...] = ()
    messages: tuple[Raw, ...] = ()
    statuses: tuple[Raw, ...] = ()


class Change(Struct, frozen=True):
    """One change that the app subscribed to."""

    field: str = ""
    value: Raw = Raw(b"{}")


class WebhookEntry(Struct, frozen=True):
    """Changes of one business account."""

    changes: tuple[Change, ...] = ()


class WebhookEvent(Struct, frozen=True):
    """The body of a request."""

    object: str = ""
    entry: tuple[WebhookEntry, ...] = ()


class Number(Struct, frozen=True):
    """The number, as the API describes it."""

    display_phone_number: str = ""
    verified_name: str = ""


class _Identified(Struct, frozen=True):
    id: str = ""


class SentMessages(Struct, frozen=True):
    """The answer about a message that was accepted."""

    messages: tuple[_Identified, ...] = ()


class Media(Struct, frozen=True):
    """The answer about a file."""

    id: str = ""
    url: str = ""


event = msgspec.json.Decoder(WebhookEvent)
value = msgspec.json.Decoder(Value)
message = msgspec.json.Decoder(Message)
status = msgspec.json.Decoder(MessageStatus)
number = msgspec.json.Decoder(Number)
sent = msgspec.json.Decoder(SentMessages)
media = msgspec.json.Decoder(Media)


def values(body: bytes) -> Iterator[Value]:
    """Returns the values of a request about messages, of all numbers of its app.

    Raises:
        msgspec.DecodeError: the request is none of the Cloud API.
    """
    for entry in event.decode(body).entry:
        for change in entry.changes:
            if change.field == "messages":
                yield value.decode(change.value)


def inbound(received: Message, value: Value, account: AccountId, now: int) -> InboundMessage | None:
    """Returns the message of an event; None when no person wrote it to the number."""
    content: MessageContent = received.edit.message if received.edit is not None else received
    sender = address(received.from_, received.from_user_id)
    text, files = content.words(), content.files()
    if not received.id or not sender or not (text or files):
        return None
    person = _person(received, value)
    group = received.group_id
    peer = Peer(PeerKind.GROUP, group) if group else Peer(PeerKind.DIRECT, sender)
    edited = received.edit is not None
    return InboundMessage(
        CHANNEL,
        account,
        peer,
        sender,
        text,
        f"{received.edit.original_message_id}:{received.id}"
        if received.edit is not None
        else received.id,
        now,
        sender_name=person.profile.name[:_MAX_NAME],
        sender_username=person.profile.username[:_MAX_NAME],
        mentions_me=bool(content.pressed),
        reply=_quoted(received.context, value.metadata),
        attachments=files,
        edited=edited,
        forwarded=received.context.forwarded or received.context.frequently_forwarded,
        sent_at=seconds(received) * 1000,
    )


def seconds(received: Message) -> int:
    """Returns the time at which a message was sent, in seconds since 1970; 0 if unknown."""
    stamp = received.timestamp
    return int(stamp) if stamp.isdecimal() and len(stamp) <= 12 else 0  # noqa: PLR2004 - until the year 33658


def address(number: str, user_id: str = "") -> str:
    """Returns the number as E.164, or the id of a person who hides it."""
    return f"+{number}" if number.isascii() and number.isdecimal() else user_id


def _person(received: Message, value: Value) -> Contact:
    for contact in value.contacts:
        if (received.from_ and contact.wa_id == received.from_) or (
            received.from_user_id and contact.user_id == received.from_user_id
        ):
            return contact
    return Contact()


def _quoted(context: Context, metadata: NumberMetadata) -> Quoted | None:
    if not context.id:
        return None
    own_number = "".join(char for char in metadata.display_phone_number if char.isdecimal())
    return Quoted(context.id, address(context.from_), is_me=context.from_ == own_number)
