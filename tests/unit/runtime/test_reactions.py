"""The messages that get a reaction, by scope."""

import pytest

from skerry.config.messages import MessagesConfig
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.runtime.reactions import acknowledges


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("group-mentions", [False, True, False, False]),
        ("group-all", [False, True, True, True]),
        ("direct", [True, False, False, False]),
        ("all", [True, True, True, True]),
        ("off", [False, False, False, False]),
    ],
)
def test_a_scope_names_the_messages(scope: str, expected: list[bool]) -> None:
    config = MessagesConfig.model_validate({"ackReaction": "👀", "ackReactionScope": scope})

    def gets(kind: PeerKind, *, addressed: bool, must: bool) -> bool:
        to = ReplyTo(ChannelId("x"), AccountId("default"), Peer(kind, "1"), "m1")
        return acknowledges(config, to, is_addressed=addressed, must_address=must)

    assert expected == [
        gets(PeerKind.DIRECT, addressed=False, must=False),
        gets(PeerKind.GROUP, addressed=True, must=True),
        gets(PeerKind.GROUP, addressed=False, must=True),
        gets(PeerKind.CHANNEL, addressed=True, must=False),
    ]


def test_without_an_emoji_or_an_id_nothing_is_set() -> None:
    to = ReplyTo(ChannelId("x"), AccountId("default"), Peer(PeerKind.DIRECT, "1"), "m1")
    every = MessagesConfig.model_validate({"ackReactionScope": "all"})
    assert not acknowledges(every, to, is_addressed=True, must_address=True)
    named = MessagesConfig.model_validate({"ackReaction": "👀", "ackReactionScope": "all"})
    nameless = ReplyTo(to.channel, to.account, to.peer, "")
    assert not acknowledges(named, nameless, is_addressed=True, must_address=True)
