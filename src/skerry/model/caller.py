"""Caller on whose behalf memory is searched or written."""

from typing import Final

from msgspec import Struct

from skerry.model.ids import SessionKey, SessionKind
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin

_KINDS: Final = {SessionKind.GROUP: PeerKind.GROUP, SessionKind.CHANNEL: PeerKind.CHANNEL}


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


def chat_of(key: SessionKey, peer: PeerKind | None) -> PeerKind:
    """Returns who hears what is said: what the key says counts, then the chat it came from."""
    return _KINDS.get(key.kind) or peer or PeerKind.DIRECT
