"""Layers of the tool policy: groups, aliases, profiles, and the order in which layers remove."""

from typing import Any

import pytest
from msgspec.structs import replace

from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.policy.access import Verb
from skerry.policy.decide import Actor, Request, decide
from skerry.policy.tool_layers import Notice
from skerry.policy.tool_names import CORE, GROUPS, SUBAGENT_DENIED
from skerry.policy.tool_policy import warnings
from skerry.runtime.toolbox import tool_layers
from tests.support.tool_rules import allowed, answer, config, effect

SUBAGENT = "agent:main:subagent:7"
GROUP = "agent:main:telegram:group:-100"


def of_agent(**tools: Any) -> dict[str, Any]:
    return {"list": [{"id": "main", "tools": tools}]}


def group(**rules: Any) -> dict[str, Any]:
    return {"channels": {"telegram": {"groups": {"-100": rules}}}}


@pytest.mark.requirement("tools-group-memory")
@pytest.mark.requirement("tools-group-web")
@pytest.mark.requirement("tools-group-fs")
@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("memory", {"memory_search", "memory_get", "memory_write"}),
        ("web", {"web_search", "web_fetch"}),
        ("fs", {"read", "write", "edit", "apply_patch"}),
    ],
)
def test_a_group_denies_its_tools_and_no_others(name: str, tools: set[str]) -> None:
    tree = {"tools": {"deny": [f"group:{name}"]}}
    denied = CORE - allowed(tree, *CORE)
    assert tools <= denied == GROUPS[f"group:{name}"]


@pytest.mark.requirement("tools-group-runtime")
@pytest.mark.requirement("tools-group-sessions")
@pytest.mark.requirement("tools-group-messaging")
@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("runtime", {"exec", "process"}),
        ("sessions", {"sessions_list", "sessions_send", "sessions_spawn"}),
        ("messaging", {"message"}),
    ],
)
def test_a_group_of_acts_denies_its_tools(name: str, tools: set[str]) -> None:
    assert allowed({"tools": {"deny": [f"group:{name}"]}}, *tools) == set()


@pytest.mark.requirement("tools-group-ui")
@pytest.mark.requirement("tools-group-automation")
@pytest.mark.requirement("tools-group-nodes")
@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("ui", {"browser", "canvas"}),
        ("automation", {"cron", "gateway"}),
        ("nodes", {"nodes"}),
    ],
)
def test_a_group_of_tools_of_later_versions_denies_them(name: str, tools: set[str]) -> None:
    assert allowed({"tools": {"deny": [f"group:{name}"]}}, *tools) == set()


@pytest.mark.requirement("tools-group-fs")
@pytest.mark.requirement("tools-group-automation")
@pytest.mark.requirement("tools-group-nodes")
@pytest.mark.parametrize(
    ("alias", "tool"),
    [("bash", "exec"), ("shell", "exec"), ("code_run", "exec"), ("apply-patch", "apply_patch"),
     ("file_read", "read"), ("file_write", "write"), ("web_browse", "web_fetch"),
     ("cron_create", "cron"), ("channel_send", "message"), ("node_command", "nodes")],
)  # fmt: skip
def test_an_alias_is_the_tool_in_a_rule_and_in_a_question(alias: str, tool: str) -> None:
    assert effect({"tools": {"deny": [alias]}}, tool) == "deny"
    assert effect({"tools": {"deny": [tool]}}, alias) == "deny"


@pytest.mark.requirement("tools-groups-expand-first")
def test_a_group_is_expanded_before_a_deny_of_one_of_its_tools() -> None:
    tree = {"tools": {"allow": ["group:fs"], "deny": ["edit"]}}
    assert allowed(tree, "read", "write", "edit", "exec") == {"read", "write"}


@pytest.mark.requirement("tools-profile-minimal")
@pytest.mark.requirement("tools-profile-coding")
@pytest.mark.requirement("tools-profile-messaging")
@pytest.mark.parametrize(
    ("profile", "some", "not_these"),
    [
        ("minimal", {"session_status"}, {"read", "memory_search", "exec"}),
        ("coding", {"read", "exec", "memory_search", "image", "sessions_list"}, {"message"}),
        ("messaging", {"message", "sessions_send", "memory_search"}, {"exec", "write"}),
    ],
)
def test_a_profile_has_its_tools(profile: str, some: set[str], not_these: set[str]) -> None:
    tree = {"tools": {"profile": profile}}
    assert allowed(tree, *some, *not_these) == some


@pytest.mark.requirement("tools-profile-full")
def test_the_full_profile_restricts_nothing() -> None:
    assert allowed({"tools": {"profile": "full"}}, *CORE) == CORE


@pytest.mark.requirement("tools-policy-hierarchy")
def test_the_profile_of_an_agent_takes_the_place_of_the_general_one() -> None:
    tree = {"tools": {"profile": "minimal"}, "agents": of_agent(profile="coding")}
    assert effect(tree, "exec") == "allow"


@pytest.mark.requirement("tools-policy-agent-allow")
def test_also_allow_adds_to_the_profile_and_to_the_allow_of_its_own_section_only() -> None:
    assert effect({"tools": {"profile": "minimal", "alsoAllow": ["read"]}}, "read") == "allow"
    both = {"tools": {"allow": ["read"], "alsoAllow": ["exec"]}}
    assert allowed(both, "read", "exec", "write") == {"read", "exec"}
    other = {"tools": {"allow": ["read"]}, "agents": of_agent(alsoAllow=["exec"])}
    assert effect(other, "exec") == "deny"


@pytest.mark.requirement("tools-policy-deny-wins")
@pytest.mark.requirement("config-agent-tools")
@pytest.mark.parametrize(
    "tree",
    [
        {"tools": {"allow": ["exec"], "deny": ["exec"]}},
        {"tools": {"deny": ["exec"]}, "agents": of_agent(allow=["exec"], profile="full")},
        {"tools": {"allow": ["*"]}, "agents": of_agent(deny=["EXEC "])},
        {"tools": {"byProvider": {"openai": {"deny": ["exec"], "allow": ["exec"]}}}},
        {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "openai/m": {"allow": ["exec"]}}}},
    ],
)
def test_a_deny_wins_wherever_it_is(tree: dict[str, Any]) -> None:
    assert effect(tree, "exec", provider="openai/m") == "deny"


@pytest.mark.requirement("tools-policy-glob-deny-first")
def test_patterns_match_whole_names_and_a_deny_is_looked_at_first() -> None:
    tree = {"tools": {"allow": ["web_*", "memory_*"], "deny": ["*_search"]}}
    assert allowed(tree, "web_search", "web_fetch", "memory_get", "read") == {
        "web_fetch",
        "memory_get",
    }


@pytest.mark.requirement("tools-policy-hierarchy")
@pytest.mark.requirement("tools-policy-seven-layers")
def test_the_trail_has_the_seven_layers_in_their_order() -> None:
    first = ["profile", "allow", "deny", "owner-only", "provider", "elevated"]
    tree = {"tools": {"profile": "coding", "sandbox": {"tools": {"deny": ["x"]}}}}
    layers = [step.layer for step in answer(tree, "read", session=SUBAGENT).trail]
    assert list(dict.fromkeys(layers)) == [*first, "sandbox", "subagent", "taint"]
    off = {**tree, "agents": {"defaults": {"sandbox": {"mode": "off"}}}}
    layers = [step.layer for step in answer(off, "read", session=SUBAGENT).trail]
    assert list(dict.fromkeys(layers)) == [*first, "subagent", "taint"]


@pytest.mark.requirement("tools-policy-sandbox-subagent")
def test_the_lists_of_the_sandbox_hold_where_its_mode_covers_the_session() -> None:
    tree: dict[str, Any] = {"tools": {"sandbox": {"tools": {"deny": ["exec"]}}}}
    assert effect(tree, "exec") == "deny"
    tree["agents"] = {"defaults": {"sandbox": {"mode": "non-main"}}}
    assert effect(tree, "exec") == "allow"
    assert effect(tree, "exec", session="trip") == "deny"
    tree["tools"]["exec"] = {"host": "gateway"}
    assert effect(tree, "exec", session="trip") == "allow"


def test_a_sender_of_a_direct_chat_is_elevated_by_the_channel_of_its_key() -> None:
    tree = {"tools": {"elevated": {"allowFrom": {"telegram": [42]}}}}
    here = {"session": "agent:main:telegram:direct:42", "host": "gateway", "sender": ("id:42",)}
    assert effect(tree, "exec", **here) == "ask"
    assert effect(tree, "exec", **{**here, "sender": ("id:7",)}) == "deny"
    main = {"host": "gateway", "sender": ("id:7",), "channel": "telegram"}
    assert effect(tree, "exec", **main) == "deny"


def test_a_run_with_messages_of_several_senders_may_what_all_of_them_may() -> None:
    rules = {"toolsBySender": {"id:7": {"deny": ["read"]}}}
    tree = {
        "channels": {"telegram": {"groups": {"-100": rules}}},
        "tools": {"elevated": {"allowFrom": {"telegram": [42]}}},
    }
    caller = Caller(
        SessionKey.parse(GROUP), PeerKind.GROUP, Origin.OWNER, channel="telegram", sender=("id:42",)
    )
    alone = tool_layers(config(tree), caller, ("p", "m"))
    joined = tool_layers(config(tree), caller, ("p", "m"), joined=[("id:42",), ("id:7",)])
    for layers, read, leaves in ((alone, "allow", "ask"), (joined, "deny", "deny")):
        use = Request(Actor.of(caller), Verb.USE, "read", effect=Verb.USE, tools=layers)
        assert str(decide(use).effect) == read
        leaving = replace(use, name="exec", host="gateway")
        assert str(decide(leaving).effect) == leaves


def test_a_run_that_a_group_started_may_what_the_group_and_its_sender_may() -> None:
    rules = {"tools": {"deny": ["exec"]}, "toolsBySender": {"id:7": {"deny": ["read"]}}}
    tree = config({"channels": {"telegram": {"groups": {"-100": rules}}}})
    for sender, read in (("id:42", "allow"), ("id:7", "deny")):
        key = SessionKey.parse(GROUP)
        caller = Caller(key, PeerKind.GROUP, Origin.OWNER, channel="telegram", sender=(sender,))
        child = SessionKey.parse(SUBAGENT)
        of_child = Caller(child, PeerKind.DIRECT, Origin.OWNER, behalf=caller.askers)
        grandchild = replace(of_child, behalf=of_child.askers)
        for started in (of_child, grandchild):
            layers = tool_layers(tree, started, ("p", "m"))
            use = Request(Actor.of(started), Verb.USE, "read", effect=Verb.USE, tools=layers)
            assert str(decide(use).effect) == read
            assert str(decide(replace(use, name="exec")).effect) == "deny"
            alone = tool_layers(tree, replace(started, behalf=()), ("p", "m"))
            assert str(decide(replace(use, name="exec", tools=alone)).effect) == "allow"


def test_the_rule_of_a_denial_names_its_list_and_entry() -> None:
    tree = {"tools": {"profile": "coding"}, "agents": of_agent(deny=["group:runtime"])}
    decision = answer(tree, "exec")
    assert decision.rule == "agents.list[0].tools.deny: group:runtime"
    assert "deny" in decision.reason


def test_an_allowlist_of_plugins_alone_removes_no_tool_of_ours() -> None:
    tree = {"tools": {"allow": ["tides"]}, "plugins": {"entries": {"tides": {}}}}
    assert effect(tree, "read") == "allow"
    assert effect({"tools": {"allow": ["group:plugins"]}}, "read") == "allow"
    mixed = {"tools": {"allow": ["tides", "edit"]}, "plugins": {"entries": {"tides": {}}}}
    assert allowed(mixed, "read", "edit", "tides") == {"edit", "tides"}


def test_a_memory_that_a_plugin_holds_has_tools_of_that_plugin() -> None:
    tree = {
        "tools": {"allow": ["memory_search", "memory_store"]},
        "plugins": {"slots": {"memory": "memory-memwal"}},
    }
    assert effect(tree, "read") == "allow"
    del tree["plugins"]
    assert effect(tree, "read") == "deny"


def test_a_misspelt_allowlist_opens_nothing_and_warns() -> None:
    tree = {"tools": {"allow": ["raed"]}}
    assert allowed(tree, *CORE) == set()
    assert warnings(config(tree).tool_rules("main")) == [
        Notice("tools.allow", "raed", "selects no tool")
    ]


@pytest.mark.parametrize(
    ("tools", "path", "entry"),
    [
        ({"deny": ["ui_notify"]}, "tools.deny", "ui_notify"),
        ({"deny": ["group:nothing"]}, "tools.deny", "group:nothing"),
        ({"alsoAllow": ["zz_*"]}, "tools.alsoAllow", "zz_*"),
        ({"byProvider": {"a": {"deny": ["x"]}}}, "tools.byProvider.a.deny", "x"),
        ({"subagents": {"tools": {"deny": ["x"]}}}, "tools.subagents.deny", "x"),
        ({"allow": []}, "tools.allow", ""),
    ],
)
def test_an_entry_that_selects_nothing_warns(tools: dict[str, Any], path: str, entry: str) -> None:
    notices = warnings(config({"tools": tools}).tool_rules("main"))
    assert [(notice.path, notice.entry) for notice in notices] == [(path, entry)]


def test_entries_that_select_something_warn_of_nothing() -> None:
    tree = {"tools": {"allow": ["group:fs", "web_*", "bash"], "deny": ["lobster"]}}
    assert warnings(config(tree).tool_rules("main")) == []


def test_who_may_run_commands_may_apply_patches() -> None:
    assert effect({"tools": {"allow": ["exec"]}}, "apply_patch") == "allow"
    assert effect({"tools": {"allow": ["exec"], "deny": ["apply_patch"]}}, "apply_patch") == "deny"


@pytest.mark.abuse(53)
@pytest.mark.requirement("tools-policy-owner-only")
@pytest.mark.parametrize("tool", ["cron", "gateway", "whatsapp_login", "memory_write"])
def test_no_grant_gives_anybody_the_tools_of_the_owner_alone(tool: str) -> None:
    tree = {"tools": {"guests": {"allow": [tool, "read"]}, "allow": ["*"]}}
    for origin in ("stranger", "known"):
        assert effect(tree, tool, origin=origin) == "deny"
        assert effect(tree, "read", origin=origin) == "allow"
        assert effect({}, "read", origin=origin) == "deny"


@pytest.mark.requirement("tools-policy-by-provider")
def test_the_model_that_answers_decides_before_its_provider() -> None:
    lists = {"openai": {"allow": ["read"]}, "openai/big": {"allow": ["read", "exec"]}}
    tree = {"tools": {"byProvider": lists}}
    assert effect(tree, "exec", provider="openai/big") == "allow"
    assert effect(tree, "exec", provider="openai/small") == "deny"
    assert effect(tree, "exec", provider="OpenAI") == "deny"
    assert effect(tree, "exec", provider="other/big") == "allow"
    minimal = {"tools": {"byProvider": {"x": {"profile": "minimal"}}}}
    assert effect(minimal, "read", provider="x/y") == "deny"


@pytest.mark.requirement("tools-policy-elevated")
def test_a_command_outside_the_sandbox_needs_elevation_and_a_person() -> None:
    assert effect({}, "exec", host="gateway") == "ask"
    assert effect({}, "exec", host="sandbox") == effect({}, "exec") == "allow"
    assert effect({"tools": {"elevated": {"enabled": False}}}, "exec", host="node") == "deny"
    assert effect({"agents": of_agent(elevated={"enabled": False})}, "exec", host="node") == "deny"


def test_a_sender_of_a_platform_is_elevated_where_every_list_has_them() -> None:
    here = {"session": GROUP, "origin": "owner", "host": "gateway", "sender": ("id:42",)}
    assert effect({}, "exec", **here) == "deny"
    listed = {"tools": {"elevated": {"allowFrom": {"telegram": [42]}}}}
    assert effect(listed, "exec", **here) == "ask"
    narrower = {**listed, "agents": of_agent(elevated={"allowFrom": {"telegram": ["7"]}})}
    assert effect(narrower, "exec", **here) == "deny"
    assert effect(listed, "exec", **{**here, "sender": ("name:42",)}) == "deny"


@pytest.mark.requirement("subagents-no-session-tools")
@pytest.mark.requirement("subagents-denied-tools")
def test_a_sub_agent_lacks_the_tools_of_both_lists() -> None:
    union = {"gateway", "cron", "memory_search", "sessions_send", "sessions_list"}
    assert union | {"sessions_history", "sessions_spawn"} <= SUBAGENT_DENIED
    assert allowed({"tools": {"alsoAllow": ["*"]}}, *SUBAGENT_DENIED, session=SUBAGENT) == set()
    assert effect({}, "read", session=SUBAGENT) == "allow"
    for subagents in ({"deny": ["read"]}, {"tools": {"deny": ["read"]}}):
        assert effect({"tools": {"subagents": subagents}}, "read", session=SUBAGENT) == "deny"


@pytest.mark.abuse(51)
def test_a_group_and_a_sender_only_take_tools_away() -> None:
    tree = group(tools={"deny": ["exec"]}, toolsBySender={"id:1": {"deny": ["read"]}})
    assert effect(tree, "exec", session=GROUP) == "deny"
    assert effect(tree, "exec") == "allow"
    assert effect(tree, "read", session=GROUP) == "allow"
    assert effect(tree, "read", session=GROUP, sender=("id:1",)) == "deny"
    assert effect(tree, "read", session=GROUP, sender=("name:1",)) == "allow"
    star = {"channels": {"telegram": {"groups": {"*": {"tools": {"allow": ["read"]}}}}}}
    assert effect(star, "exec", session=GROUP) == "deny"


@pytest.mark.abuse(51)
def test_a_name_that_its_bearer_chose_gives_nothing_that_another_key_denies() -> None:
    tree = group(toolsBySender={"*": {"allow": ["read"]}, "name:boss": {"allow": ["exec"]}})
    assert effect(tree, "exec", session=GROUP, sender=("id:3", "name:boss")) == "deny"
    tree = group(toolsBySender={"*": {"allow": ["read"]}, "id:3": {"allow": ["exec"]}})
    assert effect(tree, "exec", session=GROUP, sender=("id:3",)) == "allow"


@pytest.mark.parametrize(
    ("tool", "facts", "rule"),
    [
        ("message", {}, "tainted-send"),
        ("sessions_spawn", {}, "tainted-spend"),
        ("exec", {"host": "gateway"}, "elevated-approval"),
        ("gateway", {}, "tainted-config"),
        ("memory_write", {}, "tainted-memory"),
        ("write", {"path": "AGENTS.md"}, "tainted-file"),
        ("edit", {"path": "memory/2026-01-01.md"}, "tainted-file"),
        ("of_a_plugin", {}, "tainted-plugin"),
    ],
)
def test_a_tainted_run_asks_a_person_before_it_acts(
    tool: str, facts: dict[str, str], rule: str
) -> None:
    decision = answer({}, tool, taint=frozenset({"web"}), **facts)
    assert (str(decision.effect), decision.rule) == ("ask", rule)


@pytest.mark.parametrize(
    "call", ["read AGENTS.md", "write notes/today.md", "exec", "web_fetch", "memory_search"]
)
def test_reading_and_the_sandbox_stay_free_of_taint(call: str) -> None:
    tool, _, path = call.partition(" ")
    facts = {"path": path} if path else {}
    assert effect({}, tool, taint=frozenset({"web"}), **facts) == "allow"


def test_a_deny_stays_a_deny_in_a_tainted_run() -> None:
    assert effect({"tools": {"deny": ["message"]}}, "message", taint=frozenset({"web"})) == "deny"


@pytest.mark.abuse(106)
@pytest.mark.parametrize("name", ["readme", "do_read", "read ", "exec.read", "re\u0430d"])
def test_a_tool_is_allowed_by_its_whole_name_and_by_no_word_in_it(name: str) -> None:
    tree = {"tools": {"allow": ["read"], "guests": {"allow": ["read"]}}}
    expected = "allow" if name.strip() == "read" else "deny"
    assert effect(tree, name) == expected
    assert effect(tree, "read") == "allow"
    assert effect({"tools": {"guests": {"allow": ["read"]}}}, "readme", origin="stranger") == "deny"
