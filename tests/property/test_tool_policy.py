"""Adding a deny, or a layer that names no `alsoAllow`, never allows a tool that was denied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.root import Config
from skerry.features.tools.explain import _VERBS, ToolQuestion, decided
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.decide import decide
from skerry.policy.tool_names import CORE, GROUPS
from skerry.ports.tool import ToolContext, call_of
from skerry.routing.owner import is_owner
from skerry.routing.routing import session_key
from skerry.runtime.run_context import caller_of
from skerry.runtime.toolbox import tool_layers
from tests.support.tool_rules import HOME, config, effect

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


class NamedTool:
    """A tool with only a name, and the fields that the policy reads."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, "", {"type": "object"})
        self.verb = _VERBS.get(name, Verb.USE)
        self.plugin = "" if name in CORE else name

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Does nothing."""
        return ToolResult(f"{arguments} {context}")


def asked_by(arrived: InboundMessage, checked: Config) -> RunRequest:
    """Returns the request that a dispatcher makes of a message."""
    owns = is_owner(arrived, checked.commands.owner_allow_from)
    key = session_key(arrived, checked.agents.default_id, checked.session, is_owner=owns)
    to = ReplyTo(arrived.channel, arrived.account, arrived.peer, arrived.message_id)
    origin = Origin.OWNER if owns else Origin.STRANGER
    return RunRequest(
        RunId("r"), key, arrived.text, reply_to=to, origin=origin, sender=arrived.sender
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


SITUATIONS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["direct", "group"]),
        "peer": st.sampled_from(["5", "C1"]),
        "sender_id": st.sampled_from(["1", "2", "+491"]),
        "sender_name": st.sampled_from(["", "X"]),
    }
)


@given(
    SCOPES,
    SITUATIONS,
    st.sampled_from([*sorted(CORE), "tides"]),
    st.tuples(st.sampled_from(["all", "non-main", "off"]), LISTS),
    st.sampled_from([{}, {"host": "gateway"}, {"elevated": True}]),
    st.frozensets(st.sampled_from([Origin.WEB, Origin.PLUGIN]), max_size=1),
)
def test_the_explanation_and_a_run_for_a_message_decide_alike(
    scopes: tuple[dict[str, Any], ...],
    facts: dict[str, str],
    tool: str,
    covered: tuple[str, dict[str, Any]],
    arguments: dict[str, Any],
    words: frozenset[Origin],
) -> None:
    about, (mode, sandbox) = tree(scopes), covered
    about["tools"]["sandbox"] = {"tools": sandbox}
    about["tools"]["elevated"] = {"allowFrom": {"telegram": [1]}}
    about["agents"]["defaults"] = {"sandbox": {"mode": mode}}
    about["channels"]["telegram"]["groups"]["c1"] = {"toolsBySender": {"name:x": sandbox}}
    about["commands"] = {"ownerAllowFrom": ["telegram:1"]}
    checked = config(about)
    arrived = InboundMessage(
        ChannelId("telegram"),
        AccountId("default"),
        Peer(PeerKind(facts["kind"]), facts["peer"]),
        facts["sender_id"],
        "hello",
        "m1",
        0,
        sender_name=facts["sender_name"],
    )
    request = asked_by(arrived, checked)
    caller = caller_of(request)
    layers = tool_layers(checked, caller, ("openai", "m"), frozenset())
    context = ToolContext(RootedFolder(HOME), caller=caller, taint=words)
    named = NamedTool(tool)
    run = decide(call_of(named, arguments, context, layers))
    question = ToolQuestion(
        tool,
        session=str(request.key),
        provider="openai/m",
        origin=request.origin,
        sender=arrived.sender,
        channel="telegram",
        taint=words,
        host="gateway" if arguments else "",
    )
    explained = decided(checked, question)
    assert (explained.effect, explained.rule, explained.trail) == (run.effect, run.rule, run.trail)
