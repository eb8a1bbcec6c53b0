"""Conversations whose replies are sent to the chat platform."""

from typing import Any

import pytest

from skerry.config.session import SendPolicy
from skerry.model.ids import AccountId, ChannelId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.session import SessionSettings
from skerry.sessions.send_policy import is_mute, sends_to

KEY = SessionKey.parse("agent:main:discord:group:7")
TO = ReplyTo(ChannelId("discord"), AccountId("a"), Peer(PeerKind.GROUP, "7"), "m1")


def rule(action: str, **match: Any) -> dict[str, Any]:
    return {"action": action, "match": match}


CASES = [
    ({}, False),
    ({"default": "deny"}, True),
    ({"rules": [rule("deny", channel="Discord")]}, True),
    ({"rules": [rule("deny", channel="slack")]}, False),
    ({"rules": [rule("deny", chatType="group")]}, True),
    ({"rules": [rule("deny", chatType="dm")]}, False),
    ({"default": "deny", "rules": [rule("allow", keyPrefix="discord:group:")]}, False),
    ({"default": "deny", "rules": [rule("allow", keyPrefix="agent:main:discord")]}, False),
    ({"default": "deny", "rules": [rule("allow", rawKeyPrefix="discord:")]}, True),
    ({"default": "deny", "rules": [rule("allow", rawKeyPrefix="agent:MAIN:")]}, False),
    ({"rules": [rule("allow", channel="discord"), rule("deny", chatType="group")]}, True),
    ({"default": "deny", "rules": [rule("allow", channel="discord", chatType="dm")]}, True),
]


@pytest.mark.parametrize(("policy", "mute"), CASES)
def test_a_rule_that_denies_counts_before_one_that_allows(
    policy: dict[str, Any], *, mute: bool
) -> None:
    assert is_mute(SendPolicy.model_validate(policy), None, KEY, TO) is mute


def test_what_the_conversation_says_counts_first() -> None:
    deny, allow = (SessionSettings(send_policy=value) for value in ("deny", "allow"))
    closed = SendPolicy(default="deny")
    assert sends_to(closed, allow, KEY, TO) == TO
    assert sends_to(SendPolicy(), deny, KEY, TO) is None
    assert sends_to(closed, SessionSettings(), KEY, TO) is None
    assert sends_to(SendPolicy(), None, KEY, None) is None
