"""Which conversation a platform's message belongs to."""

import pytest

from skerry.model.ids import AccountId, AgentId, ChannelId, SessionKind
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.routing.routing import session_key

MAIN = AgentId("main")


def message(kind: PeerKind, peer: str, thread: str | None = None) -> InboundMessage:
    return InboundMessage(
        ChannelId("telegram"), AccountId("default"), Peer(kind, peer), "s", "hi", "m1", 0, thread
    )


@pytest.mark.parametrize(
    ("kind", "peer", "thread", "key"),
    [
        (PeerKind.DIRECT, "7", None, "agent:main:telegram:direct:7"),
        (PeerKind.DIRECT, "7", "t", "agent:main:telegram:direct:7"),
        (PeerKind.GROUP, "-100", None, "agent:main:telegram:group:-100"),
        (PeerKind.GROUP, "-100", "4", "agent:main:telegram:group:-100:thread:4"),
        (PeerKind.CHANNEL, "News", None, "agent:main:telegram:channel:news"),
    ],
)
def test_every_chat_has_a_conversation_of_its_own(
    kind: PeerKind, peer: str, thread: str | None, key: str
) -> None:
    assert str(session_key(message(kind, peer, thread), MAIN)) == key


def test_a_stranger_never_lands_in_the_owners_conversation() -> None:
    for peer in ("main", "agent:main:main", ":main"):
        key = session_key(message(PeerKind.DIRECT, peer), MAIN)
        assert key.kind is SessionKind.DIRECT
