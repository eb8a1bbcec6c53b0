"""Admission of a platform's messages: each policy of direct chats and of groups."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from skerry.config.channel_access import GroupAccessConfig
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.policy.channel_access import (
    AccessRules,
    ChannelVerdict,
    DmPolicy,
    GroupAccess,
    GroupPolicy,
    decide,
    group_prompt,
    requires_mention,
    topic_agent,
)

ADMIT, PAIRED, REFUSE = ChannelVerdict.ADMIT, ChannelVerdict.PAIRED, ChannelVerdict.REFUSE


def message(sender: str = "42", peer: Peer | None = None) -> InboundMessage:
    to = peer or Peer(PeerKind.DIRECT, sender)
    return InboundMessage(ChannelId("telegram"), AccountId("default"), to, sender, "hi", "m1", 0)


def group(sender: str = "42", id_: str = "-100") -> InboundMessage:
    return message(sender, Peer(PeerKind.GROUP, id_))


def verdict(arrived: InboundMessage, *, owner: bool = False, **rules: Any) -> ChannelVerdict:
    given_rules = AccessRules("channels.telegram", **rules)
    return decide(arrived, given_rules, is_owner=owner).verdict


def test_by_default_a_direct_chat_needs_a_pairing_and_a_group_is_refused() -> None:
    assert verdict(message()) is PAIRED
    assert verdict(group()) is REFUSE
    assert verdict(message(), owner=True) is ADMIT
    assert verdict(group(), owner=True) is ADMIT


@pytest.mark.parametrize(
    ("policy", "listed", "expected"),
    [
        (DmPolicy.PAIRING, {"42"}, ADMIT),
        (DmPolicy.PAIRING, {"telegram:42"}, ADMIT),
        (DmPolicy.PAIRING, {"signal:42", "420", "4"}, PAIRED),
        (DmPolicy.PAIRING, {"*"}, PAIRED),
        (DmPolicy.ALLOWLIST, {"7"}, PAIRED),
        (DmPolicy.OPEN, {"*"}, ADMIT),
        (DmPolicy.OPEN, {"7"}, REFUSE),
        (DmPolicy.OPEN, set(), REFUSE),
        (DmPolicy.DISABLED, {"42", "*"}, REFUSE),
    ],
)
def test_each_policy_of_direct_chats(
    policy: DmPolicy, listed: set[str], expected: ChannelVerdict
) -> None:
    assert verdict(message(), dm=policy, allow_from=frozenset(listed)) is expected


def test_disabled_direct_chats_are_closed_to_the_owner_too() -> None:
    assert verdict(message(), owner=True, dm=DmPolicy.DISABLED) is REFUSE


def test_groups_under_an_allowlist() -> None:
    listed = {"-100": GroupAccess()}
    assert verdict(group(), groups=listed) is ADMIT
    assert verdict(group(id_="-200"), groups=listed) is REFUSE
    assert verdict(group(id_="-200"), groups={"*": GroupAccess()}) is ADMIT
    assert verdict(group(), allow_from=frozenset({"42"})) is ADMIT, "no group is listed"
    assert verdict(group("7"), allow_from=frozenset({"42"})) is REFUSE
    assert verdict(group("7"), allow_from=frozenset("*")) is REFUSE, "it is for direct chats"
    people = frozenset({"42"})
    assert verdict(group("7"), groups=listed, group_allow_from=people) is REFUSE
    assert verdict(group("42"), groups=listed, group_allow_from=people) is ADMIT
    own = {"-100": GroupAccess(allow_from=frozenset({"7"}))}
    assert verdict(group("7"), groups=own, group_allow_from=people) is ADMIT
    assert verdict(group("42"), groups=own, group_allow_from=people) is REFUSE
    off = {"-100": GroupAccess(enabled=False), "*": GroupAccess()}
    assert verdict(group(), groups=off) is REFUSE
    assert verdict(group(id_=""), groups={"*": GroupAccess()}) is REFUSE


def test_groups_that_are_open_or_disabled() -> None:
    assert verdict(group(), group=GroupPolicy.OPEN) is ADMIT
    off = {"-100": GroupAccess(enabled=False)}
    assert verdict(group(), group=GroupPolicy.OPEN, groups=off) is REFUSE
    closed = GroupPolicy.DISABLED
    assert verdict(group(), owner=True, group=closed, groups={"*": GroupAccess()}) is REFUSE


senders = st.sampled_from(["", "1", "2", "telegram:1", "*"])
rules = st.builds(
    AccessRules,
    dm=st.sampled_from(DmPolicy),
    allow_from=st.frozensets(senders),
    group=st.sampled_from(GroupPolicy),
    group_allow_from=st.none() | st.frozensets(senders),
    groups=st.dictionaries(
        st.sampled_from(["a", "b", "*"]),
        st.builds(GroupAccess, st.booleans(), st.none() | st.frozensets(senders)),
    ),
)


@given(rules, st.sampled_from(["", "a", "c"]), st.sampled_from(PeerKind))
def test_nobody_without_an_id_is_admitted(
    given_rules: AccessRules, peer: str, kind: PeerKind
) -> None:
    arrived = message("", Peer(kind, peer))
    assert decide(arrived, given_rules, is_owner=False).verdict is REFUSE
    assert decide(arrived, given_rules, is_owner=True).verdict is REFUSE


@pytest.mark.abuse(46)
@given(rules, st.sampled_from(["1", "2", "3"]), st.sampled_from(["a", "b", "c"]))
def test_a_pairing_never_decides_about_a_group(
    given_rules: AccessRules, sender: str, peer: str
) -> None:
    arrived = group(sender, peer)
    assert decide(arrived, given_rules, is_owner=False).verdict is not PAIRED


def test_a_topic_counts_before_every_topic_and_before_its_group() -> None:
    section = GroupAccessConfig.model_validate(
        {
            "allowFrom": ["42"],
            "systemPrompt": "G",
            "topics": {
                "7": {"allowFrom": ["9"], "agentId": "work", "requireMention": False},
                "8": {"enabled": False},
                "*": {"systemPrompt": "T"},
            },
        }
    )
    rules = AccessRules("channels.telegram", groups={"-100": section.access})

    def asked(thread: str | None, sender: str = "42") -> tuple[ChannelVerdict, str, str, bool]:
        arrived = structs.replace(group(sender), thread_id=thread)
        return (
            decide(arrived, rules, is_owner=False).verdict,
            topic_agent(arrived, rules),
            group_prompt(arrived, rules),
            requires_mention(arrived, rules),
        )

    assert asked("7") == (REFUSE, "work", "G", False)
    assert asked("7", "9") == (ADMIT, "work", "G", False)
    assert asked("8") == (REFUSE, "", "G", True)
    assert asked("3") == asked(None) == (ADMIT, "", "G\n\nT", True)
    off = structs.replace(group(), thread_id="8")
    assert decide(off, rules, is_owner=True).rule == (
        "channels.telegram.groups.-100.topics.8.enabled"
    )
    assert topic_agent(message(), rules) == ""
