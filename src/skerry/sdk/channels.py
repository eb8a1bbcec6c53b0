"""Chat platforms that a plugin connects: the port, and what goes in and out."""

from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit
from skerry.model.undelivered import DeliveryDelayedError
from skerry.ports.channel import ChannelAdapter, Inbox

__all__ = (
    "AccountId",
    "ChannelAdapter",
    "ChannelId",
    "DeliveryDelayedError",
    "DeliveryRefusedError",
    "InboundMessage",
    "Inbox",
    "OutboundPart",
    "Peer",
    "PeerKind",
    "Receipt",
    "ReplyTo",
    "Settlement",
    "TextUnit",
)
