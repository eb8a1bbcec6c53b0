"""Selection of the agent: the most specific binding, then the first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from skerry.config.bindings import Binding, Match
from skerry.model.ids import AccountId, AgentId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.routing.bindings import MatchedBy, MessageOrigin, route, specificity

A, B, MAIN = AgentId("a"), AgentId("b"), AgentId("main")
AGENTS = (MAIN, A, B)
CHAT = MessageOrigin(
    "discord",
    "work",
    Peer(PeerKind.CHANNEL, "7"),
    Peer(PeerKind.CHANNEL, "6"),
    guild_id="g",
    team_id="t",
    roles=frozenset({"admin", "x"}),
)
TIERS: dict[MatchedBy, dict[str, Any]] = {
    MatchedBy.PEER: {"peer": {"kind": "channel", "id": "7"}},
    MatchedBy.PARENT: {"peer": {"kind": "channel", "id": "6"}},
    MatchedBy.KIND: {"peer": {"kind": "channel"}},
    MatchedBy.ROLES: {"guildId": "g", "roles": ["admin"]},
    MatchedBy.GUILD: {"guildId": "g"},
    MatchedBy.TEAM: {"teamId": "t"},
    MatchedBy.ACCOUNT: {"accountId": "work"},
    MatchedBy.CHANNEL: {"accountId": "*"},
}


def binding(agent: str, **match: Any) -> Binding:
    return Binding.model_validate({"agentId": agent, "match": {"channel": "discord", **match}})


def answers(*bindings: Binding, origin: MessageOrigin = CHAT) -> tuple[str, MatchedBy]:
    selected = route(origin, bindings, AGENTS, MAIN)
    return selected.agent, selected.matched_by


@pytest.mark.requirement("routing-binding-structure")
@pytest.mark.requirement("routing-priority")
@pytest.mark.parametrize("tier", TIERS)
def test_the_more_specific_binding_counts_whatever_the_order(tier: MatchedBy) -> None:
    below = [
        binding("b", **TIERS[lower_tier])
        for lower_tier in list(TIERS)[list(TIERS).index(tier) + 1 :]
    ]
    expected = binding("a", **TIERS[tier])
    assert answers(*below, expected) == answers(expected, *below) == ("a", tier)


def test_of_two_that_are_as_specific_the_first_counts() -> None:
    assert answers(binding("a"), binding("b"))[0] == "a"


@pytest.mark.requirement("routing-priority")
def test_what_no_binding_fits_goes_to_the_default_agent() -> None:
    assert answers() == ("main", MatchedBy.DEFAULT)
    assert answers(binding("a", accountId="home")) == ("main", MatchedBy.DEFAULT)


def test_a_binding_without_an_account_fits_every_account_as_one_of_the_channel() -> None:
    assert answers(binding("a")) == ("a", MatchedBy.CHANNEL)


@pytest.mark.requirement("routing-peer-kind-without-id")
def test_a_kind_without_an_id_fits_every_conversation_of_that_kind() -> None:
    rule = binding("a", peer={"kind": "dm"})
    direct = MessageOrigin("discord", "work", Peer(PeerKind.DIRECT, "9"))
    assert answers(rule, origin=direct) == ("a", MatchedBy.KIND)
    assert answers(rule)[0] == "main"


@pytest.mark.requirement("routing-binding-structure")
@pytest.mark.parametrize(
    "match",
    [
        {"peer": {"kind": "channel", "id": "7"}, "guildId": "other"},
        {"guildId": "g", "roles": ["nobody"]},
        {"teamId": "t", "accountId": "home"},
        {"roles": ["admin"]},
    ],
)
def test_all_that_a_binding_names_must_fit(match: dict[str, Any]) -> None:
    assert answers(binding("a", **match))[0] == "main"


def test_an_agent_that_is_gone_means_the_default_one() -> None:
    assert answers(binding("gone"))[0] == "main"


matches = st.sampled_from([*TIERS.values(), {"guildId": "no"}, {"peer": {"kind": "group"}}])


@given(st.lists(matches, max_size=6))
def test_the_choice_is_that_of_a_plain_sort(chosen: list[dict[str, Any]]) -> None:
    rules = [binding("ab"[number % 2], **match) for number, match in enumerate(chosen)]
    tiers = [(specificity(rule.match, CHAT), rule) for rule in rules]
    order = list(MatchedBy)
    fitting = sorted(
        ((order.index(tier), number, rule) for number, (tier, rule) in enumerate(tiers) if tier),
        key=lambda case: case[:2],
    )
    expected = fitting[0][2].agent_id if fitting else "main"
    assert answers(*rules)[0] == expected


def test_a_binding_may_name_a_thread_or_the_channel_in_which_it_began() -> None:
    room = Peer(PeerKind.CHANNEL, "100")
    account = AccountId("work")
    in_thread = InboundMessage(ChannelId("discord"), account, room, "7", "x", "1", 1, "150")
    in_thread = replace(in_thread, parent=room)
    origin = MessageOrigin.of(in_thread)
    of_thread = binding("b", peer={"kind": "channel", "id": "150"})
    of_room = binding("a", peer={"kind": "channel", "id": "100"})
    assert answers(of_room, origin=origin) == ("a", MatchedBy.PARENT)
    assert answers(of_room, of_thread, origin=origin) == ("b", MatchedBy.PEER)
    outside_thread = MessageOrigin.of(replace(in_thread, thread_id=None, parent=None))
    assert answers(of_room, of_thread, origin=outside_thread) == ("a", MatchedBy.PEER)


@pytest.mark.requirement("routing-peer-kinds")
@pytest.mark.parametrize("kind", ["room", "", "DM ", None, 7])
def test_a_binding_has_no_other_kind_of_conversation(kind: object) -> None:
    with pytest.raises(ValidationError, match=r"peer\.kind"):
        Match.model_validate({"channel": "memory", "peer": {"kind": kind, "id": "x"}})
