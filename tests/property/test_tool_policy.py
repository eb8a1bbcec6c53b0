"""Adding a deny, or a layer that names no `alsoAllow`, never allows a tool that was denied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.policy.tool_names import CORE, GROUPS
from tests.support.tool_rules import effect

ENTRIES = st.sampled_from(
    [*sorted(CORE), *sorted(GROUPS), "group:plugins", "*", "web_*", "bash", "ui_notify", "tides"]
)
LISTS = st.fixed_dictionaries(
    {},
    optional={
        "allow": st.lists(ENTRIES, max_size=4),
        "alsoAllow": st.lists(ENTRIES, max_size=2),
        "deny": st.lists(ENTRIES, max_size=3),
    },
)
PROFILED = st.tuples(LISTS, st.sampled_from([None, "minimal", "coding", "messaging", "full"])).map(
    lambda pair: {**pair[0], **({"profile": pair[1]} if pair[1] else {})}
)
SCOPES = st.tuples(PROFILED, PROFILED, PROFILED, LISTS, LISTS, LISTS)
FACTS = st.fixed_dictionaries(
    {
        "session": st.sampled_from(
            ["main", "agent:main:subagent:1", "agent:main:telegram:group:5"]
        ),
        "origin": st.sampled_from(["owner", "stranger"]),
        "sender": st.sampled_from([(), ("id:1",), ("name:x",)]),
    }
)
ORDER = ("allow", "ask", "deny")
PLACES = range(6)


def tree(scopes: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    general, agent, provider, group, sender, subagent = scopes
    return {
        "tools": {
            **general,
            "byProvider": {"openai": provider},
            "subagents": subagent,
            "guests": {"allow": ["read", "exec"]},
        },
        "agents": {"list": [{"id": "main", "tools": agent}]},
        "channels": {
            "telegram": {"groups": {"5": {"tools": group, "toolsBySender": {"id:1": sender}}}}
        },
        "plugins": {"entries": {"tides": {}}},
    }


@pytest.mark.abuse(78)
@given(
    SCOPES,
    FACTS,
    st.sampled_from([*sorted(CORE), "tides", "unknown"]),
    st.sampled_from(PLACES),
    ENTRIES,
)
def test_adding_a_deny_never_widens(
    scopes: tuple[dict[str, Any], ...], facts: dict[str, Any], tool: str, place: int, entry: str
) -> None:
    more = list(scopes)
    more[place] = {**more[place], "deny": [*more[place].get("deny", ()), entry]}
    before = effect(tree(scopes), tool, provider="openai/m", **facts)
    after = effect(tree(tuple(more)), tool, provider="openai/m", **facts)
    assert ORDER.index(after) >= ORDER.index(before)


@pytest.mark.abuse(78)
@given(
    SCOPES,
    FACTS,
    st.sampled_from([*sorted(CORE), "tides", "unknown"]),
    st.sampled_from(PLACES[2:]),
)
def test_adding_a_layer_never_widens(
    scopes: tuple[dict[str, Any], ...], facts: dict[str, Any], tool: str, place: int
) -> None:
    fewer = list(scopes)
    fewer[place] = {}
    before = effect(tree(tuple(fewer)), tool, provider="openai/m", **facts)
    after = effect(tree(scopes), tool, provider="openai/m", **facts)
    assert ORDER.index(after) >= ORDER.index(before)


@pytest.mark.abuse(78)
@given(SCOPES, FACTS, st.sampled_from(sorted(CORE)), st.lists(ENTRIES, min_size=1, max_size=4))
def test_adding_an_allowlist_never_widens(
    scopes: tuple[dict[str, Any], ...], facts: dict[str, Any], tool: str, entries: list[str]
) -> None:
    for place in (0, 1):
        fewer, more = list(scopes), list(scopes)
        fewer[place] = {key: value for key, value in scopes[place].items() if key != "allow"}
        more[place] = {**fewer[place], "allow": entries}
        before = effect(tree(tuple(fewer)), tool, **facts)
        after = effect(tree(tuple(more)), tool, **facts)
        assert ORDER.index(after) >= ORDER.index(before)
