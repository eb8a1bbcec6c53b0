"""Caller on whose behalf memory is searched or written."""

from msgspec import Struct

from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin


class Caller(Struct, frozen=True):
    """The conversation in which a run speaks, and for whom it does."""

    key: SessionKey
    chat: PeerKind
    """Kind of conversation that the answer goes to: one person, or several."""
    origin: Origin
    """Origin of the request."""
    is_private: bool = False
    """True when only the owner takes part in the conversation."""
    channel: str = ""
    """A chat platform's name; empty for a client of the gateway."""
    sender: tuple[str, ...] = ()
    """Typed keys of the person on the platform, such as `id:42`."""
