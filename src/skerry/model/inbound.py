"""Messages that arrive from a chat platform."""

from enum import StrEnum

from msgspec import Struct

from skerry.model.ids import AccountId, ChannelId


class PeerKind(StrEnum):
    """The chat's other side."""

    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"


class Peer(Struct, frozen=True):
    """A conversation on a platform: `id` is the platform's own."""

    kind: PeerKind
    id: str


class InboundMessage(Struct, frozen=True):
    """One message as a channel adapter hands it in.

    `message_id` is unique in its chat (account, peer, thread), which is what platforms promise; an
    empty one says that the platform has none, and then a repeated message is a new one.
    """

    channel: ChannelId
    account: AccountId
    peer: Peer
    sender_id: str
    text: str
    message_id: str
    received_at: int
    thread_id: str | None = None


def well_formed(text: str) -> str:
    """Returns the text with `?` for each half of a surrogate pair, which nothing could store."""
    return text.encode("utf-8", "replace").decode()


class ReplyTo(Struct, frozen=True):
    """Address for the answer to an inbound message; stored with the run."""

    channel: ChannelId
    account: AccountId
    peer: Peer
    message_id: str
    thread_id: str | None = None
    quote: str | None = None
    """The message that a part is to quote where the platform can, because the model said so."""
