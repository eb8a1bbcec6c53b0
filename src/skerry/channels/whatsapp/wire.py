"""Events of the Cloud API, and what they mean as messages."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.whatsapp.api import Failure
from skerry.channels.whatsapp.content import Content
from skerry.sdk.channels import AccountId, ChannelId, InboundMessage, Peer, PeerKind, Quoted

CHANNEL: Final = ChannelId("whatsapp")
_MOST_NAME: Final = 256


class Profile(Struct, frozen=True):
    """Names that a person chose."""

    name: str = ""
    username: str = ""


class Contact(Struct, frozen=True):
    """A person; `wa_id` is missing for one who hides the number."""

    wa_id: str = ""
    user_id: str = ""
    profile: Profile = Profile()


class Context(Struct, frozen=True):
    """The message that a message answers."""

    id: str = ""
    from_: str = field(default="", name="from")
    forwarded: bool = False
    frequently_forwarded: bool = False


class Edit(Struct, frozen=True):
    """A message that replaces another."""

    original_message_id: str = ""
    message: Content = Content()


class Message(Content, frozen=True):
    """A message as it arrives."""

    id: str = ""
    from_: str = field(default="", name="from")
    from_user_id: str = ""
    group_id: str = ""
    timestamp: str = "0"
    context: Context = Context()
    edit: Edit | None = None


class Status(Struct, frozen=True):
    """Something that became of a message of ours."""

    id: str = ""
    status: str = ""
    biz_opaque_callback_data: str = ""
    errors: tuple[Failure, ...] = ()


class Metadata(Struct, frozen=True):
    """The number that an event is about."""

    display_phone_number: str = ""
    phone_number_id: str = ""


class Value(Struct, frozen=True):
    """Messages and statuses of one number."""

    metadata: Metadata = Metadata()
    contacts: tuple[Contact, ...] = ()
    messages: tuple[Raw, ...] = ()
    statuses: tuple[Raw, ...] = ()


class Change(Struct, frozen=True):
    """One change that the app subscribed to."""

    field: str = ""
    value: Raw = Raw(b"{}")


class Entry(Struct, frozen=True):
    """Changes of one business account."""

    changes: tuple[Change, ...] = ()


class Event(Struct, frozen=True):
    """The body of a request."""

    object: str = ""
    entry: tuple[Entry, ...] = ()


class Number(Struct, frozen=True):
    """The number, as the API describes it."""

    display_phone_number: str = ""
    verified_name: str = ""


class _Identified(Struct, frozen=True):
    id: str = ""


class Sent(Struct, frozen=True):
    """The answer about a message that was accepted."""

    messages: tuple[_Identified, ...] = ()


class Media(Struct, frozen=True):
    """The answer about a file."""

    id: str = ""
    url: str = ""


event = msgspec.json.Decoder(Event)
value = msgspec.json.Decoder(Value)
message = msgspec.json.Decoder(Message)
status = msgspec.json.Decoder(Status)
number = msgspec.json.Decoder(Number)
sent = msgspec.json.Decoder(Sent)
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


def inbound(one: Message, around: Value, account: AccountId, now: int) -> InboundMessage | None:
    """Returns the message of an event; None where it is nothing that a person wrote to us."""
    content: Content = one.edit.message if one.edit is not None else one
    sender = address(one.from_, one.from_user_id)
    text, files = content.words(), content.files()
    if not one.id or not sender or not (text or files):
        return None
    person = _person(one, around)
    group = one.group_id
    peer = Peer(PeerKind.GROUP, group) if group else Peer(PeerKind.DIRECT, sender)
    edited = one.edit is not None
    return InboundMessage(
        CHANNEL,
        account,
        peer,
        sender,
        text,
        f"{one.edit.original_message_id}:{one.id}" if one.edit is not None else one.id,
        now,
        sender_name=person.profile.name[:_MOST_NAME],
        sender_username=person.profile.username[:_MOST_NAME],
        mentions_me=bool(content.pressed),
        reply=_quoted(one.context, around.metadata),
        attachments=files,
        edited=edited,
        forwarded=one.context.forwarded or one.context.frequently_forwarded,
        sent_at=seconds(one) * 1000,
    )


def seconds(one: Message) -> int:
    """Returns the time at which a message was sent, in seconds since 1970; 0 where none is said."""
    stamp = one.timestamp
    return int(stamp) if stamp.isdecimal() and len(stamp) <= 12 else 0  # noqa: PLR2004 - until the year 33658


def address(number: str, user_id: str = "") -> str:
    """Returns the number as E.164, or the id of a person who hides it."""
    return f"+{number}" if number.isascii() and number.isdecimal() else user_id


def _person(one: Message, around: Value) -> Contact:
    for contact in around.contacts:
        if (one.from_ and contact.wa_id == one.from_) or (
            one.from_user_id and contact.user_id == one.from_user_id
        ):
            return contact
    return Contact()


def _quoted(context: Context, mine: Metadata) -> Quoted | None:
    if not context.id:
        return None
    own = "".join(char for char in mine.display_phone_number if char.isdecimal())
    return Quoted(context.id, address(context.from_), is_me=context.from_ == own)
