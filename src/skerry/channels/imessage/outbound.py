"""Parts as they are sent to a chat, and as they appear there."""

import hashlib
from pathlib import Path

import msgspec

from skerry.channels.imessage import wire
from skerry.channels.imessage.markup import PLAIN_TEXT
from skerry.sdk.channels import OutboundMedia, OutboundPart, PeerKind, Receipt, ReplyTo


def chat_of(to: ReplyTo) -> str:
    """Returns the id of the chat; a chat with one person may be named by the address."""
    name = to.peer.id
    if to.peer.kind is PeerKind.DIRECT and ";" not in name:
        return f"iMessage{wire.DIRECT}{name}"
    return name


def temp_guid(part: OutboundPart) -> str:
    """Returns the id of a part in the queue of BlueBubbles: the same part has the same."""
    named = f"{part.nonce}\0{part.text}"  # a repeated part with a mark may be cut in several
    return "skerry-" + hashlib.sha256(named.encode()).hexdigest()[:32]


def plain(text: str) -> str:
    """Returns a text without marks; unchanged when it consists of marks only."""
    return PLAIN_TEXT.render(text) or text


def file_name(media: OutboundMedia) -> str:
    """Returns the name under which a file is sent."""
    return media.name or Path(media.path).name


def is_sent(part: OutboundPart, own_messages: list[wire.Message]) -> bool:
    """Returns whether the account's own rows have the part: its file and its text."""
    media, words = part.additions.media, plain(part.text).strip()
    has_file = media is None or any(file_name(media) in message.names for message in own_messages)
    return has_file and (not words or any(message.words == words for message in own_messages))


def receipt_of(answer: bytes) -> Receipt:
    """Returns the id of the message that was sent."""
    try:
        guid = wire.heading.decode(answer).guid
    except msgspec.DecodeError:
        guid = ""
    return Receipt((guid,) if guid else ())
