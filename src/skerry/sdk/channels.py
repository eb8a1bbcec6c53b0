"""Chat platforms that a plugin connects: the port, and what goes in and out."""

from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import (
    Attachment,
    AttachmentKind,
    InboundMessage,
    Peer,
    PeerKind,
    Quoted,
    ReplyTo,
)
from skerry.model.outbound import (
    Additions,
    Button,
    OutboundMedia,
    OutboundPart,
    Poll,
    Receipt,
    Settlement,
    TextUnit,
)
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import (
    AccountState,
    Capabilities,
    ChannelAdapter,
    ConnectionState,
    Edits,
    Fetches,
    Inbox,
    Post,
    PostAnswer,
    Probes,
    Reacts,
    TakesPosts,
)

__all__ = (
    "AccountId",
    "AccountState",
    "Additions",
    "Attachment",
    "AttachmentKind",
    "Button",
    "Capabilities",
    "ChannelAdapter",
    "ChannelId",
    "ConnectionState",
    "DeliveryDelayedError",
    "DeliveryRefusedError",
    "Edits",
    "Fetches",
    "InboundMessage",
    "Inbox",
    "MediaError",
    "OutboundMedia",
    "OutboundPart",
    "Peer",
    "PeerKind",
    "Poll",
    "Post",
    "PostAnswer",
    "Probes",
    "Quoted",
    "Reacts",
    "Receipt",
    "ReplyTo",
    "Settlement",
    "TakesPosts",
    "TextUnit",
)
