"""The scope and the rights, by example and by property."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from skerry.config.memory import MemoryScope
from skerry.features.memory.citations import citation, cited
from skerry.features.memory.scope import has_right, in_scope, is_open, may_read
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.memory import MemoryHit, MemorySource
from skerry.model.origin import Origin
from tests.support.memory import GROUP, OWNER, STRANGER

KEYS = (
    "agent:main:main",
    "agent:main:notes",
    "agent:main:telegram:direct:7",
    "agent:main:telegram:group:9",
    "agent:main:discord:channel:3",
    "agent:main:global",
    "agent:main:cron:1",
)
callers = st.builds(
    Caller,
    st.sampled_from([SessionKey.parse(key) for key in KEYS]),
    st.sampled_from(PeerKind),
    st.sampled_from(Origin),
    st.booleans(),
    st.sampled_from(["", "telegram", "discord"]),
)
matches = st.fixed_dictionaries(
    {},
    optional={
        "chatType": st.sampled_from(["direct", "dm", "group", "channel"]),
        "channel": st.sampled_from(["telegram", "Discord", "webchat"]),
        "keyPrefix": st.sampled_from(["main", "telegram:", "agent:main:telegram:group"]),
        "rawKeyPrefix": st.sampled_from(["agent:main:", "agent:other:"]),
    },
)
actions = st.sampled_from(["allow", "deny"])
rules = st.lists(st.fixed_dictionaries({"action": actions, "match": matches}), max_size=5)
scopes = st.builds(
    lambda default, listed: scope(default=default, rules=listed),
    actions,
    rules,
)
hits = st.builds(
    lambda source, session: MemoryHit("p", 1, 1, 0.5, "t", source, session=session),
    st.sampled_from(MemorySource),
    st.sampled_from([None, *KEYS]),
)


def scope(**tree: Any) -> MemoryScope:
    return MemoryScope.model_validate(tree)


@pytest.mark.requirement("memory-scope-default")
def test_by_default_direct_chats_alone_are_open() -> None:
    usual = MemoryScope()
    assert (usual.default, len(usual.rules)) == ("deny", 1)
    assert is_open(usual, OWNER)
    assert not is_open(usual, GROUP)
    assert not is_open(usual, replace(GROUP, chat=PeerKind.CHANNEL))
    assert in_scope(usual, STRANGER), "the place is"
    assert not is_open(usual, STRANGER), "and the person is not"


@pytest.mark.requirement("memory-scope-config")
def test_rules_open_and_close_places() -> None:
    one = {"action": "allow", "match": {"keyPrefix": "telegram:group:9"}}
    assert is_open(scope(rules=[one]), GROUP)
    assert not is_open(scope(rules=[one]), OWNER)
    denied = {"action": "deny", "match": {"channel": "Telegram"}}
    assert not is_open(scope(default="allow", rules=[one, denied]), GROUP)
    assert is_open(scope(default="allow", rules=[denied]), OWNER)
    webchat = {"action": "deny", "match": {"channel": "webchat"}}
    assert not is_open(scope(default="allow", rules=[webchat]), OWNER)
    assert is_open(scope(rules=[{"action": "allow", "match": {"chatType": "dm"}}]), OWNER)
    with pytest.raises(ValidationError):
        scope(rules=[{"action": "allow", "match": {"chatTyp": "direct"}}])


@given(scopes, callers)
def test_no_rule_opens_memory_to_another_person(given_: MemoryScope, caller: Caller) -> None:
    if is_open(given_, caller):
        started = caller.origin is Origin.BOOT and caller.chat is PeerKind.DIRECT
        assert caller.is_private or caller.origin is Origin.OWNER or started
    assert is_open(given_, caller) == (has_right(caller) and in_scope(given_, caller))


@given(scopes, callers, st.randoms())
def test_the_order_of_rules_does_not_matter_and_a_denial_only_closes(
    given_: MemoryScope, caller: Caller, random: Any
) -> None:
    mixed = list(given_.rules)
    random.shuffle(mixed)
    same = given_.model_copy(update={"rules": tuple(mixed)})
    assert in_scope(same, caller) == in_scope(given_, caller)
    closed = scope(rules=[{"action": "deny"}]).rules
    assert not in_scope(given_.model_copy(update={"rules": (*mixed, *closed)}), caller)


@given(callers, hits)
def test_what_was_said_stays_where_it_may_be_read(caller: Caller, hit: MemoryHit) -> None:
    if not may_read(caller, hit) or hit.source is MemorySource.MEMORY:
        return
    assert hit.session is not None
    own = hit.session == str(caller.key)
    assert own or (caller.is_private and SessionKey.parse(hit.session).is_owners)
    assert own or hit.session not in set(KEYS[2:6])


@pytest.mark.requirement("memory-citation-format")
def test_a_citation_names_the_file_and_its_lines() -> None:
    assert citation("MEMORY.md", 3, 9) == "MEMORY.md#L3-L9"
    assert citation("MEMORY.md", 3, 3) == "MEMORY.md#L3"
    assert cited("Rome", "MEMORY.md#L3") == "Rome\n\nSource: MEMORY.md#L3"
