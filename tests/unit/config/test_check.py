"""Valid and invalid configurations, and the paths in errors."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.model.errors import ConfigInvalidError, ConfigIssue

FILE = Path("/nowhere/skerry.json")


def checked(tree: dict[str, Any]) -> tuple[Config, tuple[ConfigIssue, ...]]:
    return check(tree, state_dir=FILE.parent, path=FILE)


def errors(tree: dict[str, Any]) -> dict[str, ConfigIssue]:
    with pytest.raises(ConfigInvalidError) as caught:
        checked(tree)
    return {issue.path: issue for issue in caught.value.issues}


def test_everything_that_is_wrong_is_named_at_once_with_path_and_remedy() -> None:
    found = errors(
        {
            "gateway": {"port": 70_000, "prot": 1},
            "agents": {"defaults": {"timeoutSeconds": -1}, "list": [{"id": "ok"}, {"id": "No!"}]},
            "models": {"providers": {"mine": {"baseUrl": "nowhere"}}},
            "tools": {"profile": "fool"},
        }
    )
    assert set(found) == {
        "gateway.port",
        "gateway.prot",
        "agents.defaults.timeoutSeconds",
        "agents.list[1].id",
        "models.providers.mine.baseUrl",
        "tools.profile",
    }
    assert all(issue.message and issue.remedy for issue in found.values())


@pytest.mark.parametrize(
    ("tree", "path", "hint"),
    [
        pytest.param({"gateway": {"prot": 1}}, "gateway.prot", "'port'", id="gateway"),
        pytest.param(
            {"gateway": {"auth": {"tokne": "x"}}}, "gateway.auth.tokne", "'token'", id="auth"
        ),
        pytest.param({"gatway": {}}, "gatway", "'gateway'", id="a guarded section itself"),
        pytest.param({"tool": {}}, "tool", "'tools'", id="a guarded section that is new"),
        pytest.param(
            {"agents": {"list": [{"id": "a", "sandbx": {}}]}},
            "agents.list[0].sandbx",
            "'sandbox'",
            id="an agent's sandbox",
        ),
    ],
)
def test_an_unknown_key_where_a_typo_could_open_something_is_an_error(
    tree: dict[str, Any], path: str, hint: str
) -> None:
    assert f"Did you mean {hint}?" in errors(tree)[path].remedy


@pytest.mark.parametrize(
    "key",
    ["approvals"],
)
def test_a_section_that_would_leave_something_open_if_ignored_is_refused(key: str) -> None:
    assert "not supported by this version" in errors({key: {}})[key].message


def test_an_unknown_key_of_tools_is_refused_wherever_tools_are() -> None:
    assert "unknown key" in errors({"tools": {"guests": {"alow": []}}})["tools.guests.alow"].message
    agent = {"id": "a", "tools": {"denny": ["exec"]}}
    assert "'deny'" in errors({"agents": {"list": [agent]}})["agents.list[0].tools.denny"].remedy
    group: dict[str, Any] = {"groups": {"1": {"tool": {"deny": []}}}}
    assert "channels.telegram.groups.1.tool" in errors({"channels": {"telegram": group}})


def test_a_sender_of_a_group_is_named_by_a_typed_key() -> None:
    group = {"toolsBySender": {"42": {"deny": ["exec"]}}}
    found = errors({"channels": {"telegram": {"groups": {"*": group}}}})
    assert "id:42" in found["channels.telegram.groups.*.toolsBySender"].message


def test_an_unknown_key_of_a_sandbox_is_refused_for_one_agent_and_for_all() -> None:
    agents = {"defaults": {"sandbox": {"mod": "off"}}, "list": [{"id": "a", "sandbox": {"x": 1}}]}
    found = errors({"agents": agents})
    assert set(found) == {"agents.defaults.sandbox.mod", "agents.list[0].sandbox.x"}
    assert "'mode'" in found["agents.defaults.sandbox.mod"].remedy


def test_tools_belong_to_the_whole_or_to_an_agent_and_not_to_the_defaults() -> None:
    assert set(errors({"agents": {"defaults": {"tools": {}}}})) == {"agents.defaults.tools"}


def test_elsewhere_an_unknown_key_is_kept_and_warned_about() -> None:
    tree = {
        "heartbeat": {"every": "30m"},
        "agents": {"defaults": {"workspce": "/x"}},
        "messages": {"queue": {"cup": 20}},
    }
    config, warnings = checked(tree)
    assert [issue.path for issue in warnings] == [
        "heartbeat",
        "agents.defaults.workspce",
        "messages.queue.cup",
    ]
    assert "'workspace'" in warnings[1].remedy
    assert config.messages.queue.model_extra == {"cup": 20}


def test_what_other_programs_note_in_the_file_is_no_matter() -> None:
    assert checked({"$schema": "x", "meta": {}, "wizard": {}})[1] == ()


def test_the_file_cannot_say_where_the_state_is() -> None:
    config, warnings = checked({"stateDir": "/evil", "state_dir": "/evil", "path": "/evil"})
    assert (config.state_dir, config.path) == (FILE.parent, FILE)
    assert [issue.path for issue in warnings] == ["stateDir", "state_dir", "path"]


@pytest.mark.parametrize("token", ["", " ", "abc "], ids=repr)
def test_a_token_that_nothing_could_match_is_refused(token: str) -> None:
    assert "gateway.auth.token" in errors({"gateway": {"auth": {"token": token}}})


def test_no_value_of_the_file_is_in_an_error() -> None:
    canary = "sk-canary"
    tree = {
        "gateway": {"port": canary, "auth": {"token": [canary], "mode": canary}},
        "agents": {"defaults": {"timeoutSeconds": canary, "workspace": [canary]}, "list": canary},
        "models": {"providers": {"p": {"baseUrl": canary, "apiKey": [canary], "api": canary}}},
    }
    with pytest.raises(ConfigInvalidError) as caught:
        checked(tree)
    assert len(caught.value.issues) == 9
    assert canary not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.requirement("config-agent-id")
def test_a_duplicate_id_is_an_error_at_its_path() -> None:
    found = errors({"agents": {"list": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}})
    assert "agents.list[0]" in found["agents.list[2].id"].message


@pytest.mark.requirement("config-agent-id")
def test_an_agent_without_an_id_is_an_error() -> None:
    assert errors({"agents": {"list": [{"name": "x"}]}})["agents.list[0].id"].remedy == "Add it."


@pytest.mark.requirement("config-agent-default")
def test_the_agent_marked_as_default_is_the_default() -> None:
    config, _ = checked({"agents": {"list": [{"id": "a"}, {"id": "b", "default": True}]}})
    assert config.agents.default_id == "b"


@pytest.mark.requirement("config-agent-workspace")
def test_a_workspace_is_the_agent_s_own_or_named_after_it() -> None:
    tree = {"agents": {"list": [{"id": "main"}, {"id": "b"}, {"id": "c", "workspace": "/w"}]}}
    config, _ = checked(tree)
    places = {id_: str(config.workspace(id_)) for id_ in config.agents.ids}
    assert places == {"main": "/nowhere/workspace", "b": "/nowhere/workspace-b", "c": "/w"}


def test_an_agent_s_name_is_shown_and_may_be_absent() -> None:
    config, _ = checked({"agents": {"list": [{"id": "a", "name": "Ada"}, {"id": "b"}]}})
    assert [agent.name for agent in config.agents.list] == ["Ada", ""]


def test_a_model_may_be_given_as_text() -> None:
    config, _ = checked({"agents": {"defaults": {"model": "openai/gpt"}}})
    assert config.agents.defaults.model.primary == "openai/gpt"


@pytest.mark.requirement("config-agents-list-and-bindings")
def test_bindings_name_agents_of_the_list() -> None:
    match = {"channel": "telegram", "peer": {"kind": "dm", "id": "7"}}
    tree = {
        "agents": {"list": [{"id": "a"}, {"id": "b"}]},
        "bindings": [{"agentId": "b", "match": match}],
    }
    (binding,) = checked(tree)[0].bindings
    assert (binding.agent_id, binding.match.peer and binding.match.peer.kind) == ("b", "direct")
    wrong = errors({**tree, "bindings": [{"agentId": "c", "match": match}]})
    assert "which has a, b" in wrong["bindings[0].agentId"].message
    assert "bindings[0].match.chanel" in errors(
        {"bindings": [{"agentId": "main", "match": {**match, "chanel": "x"}}]}
    )


def test_webhooks_without_a_key_are_refused() -> None:
    assert "requires hooks.token" in errors({"hooks": {"enabled": True}})["hooks"].message
    assert "unknown key" in errors({"hooks": {"tokken": "x"}})["hooks.tokken"].message


def test_a_time_zone_must_be_one() -> None:
    found = errors({"agents": {"defaults": {"userTimezone": "Europe/Atlantis"}}})
    assert "not a time zone" in found["agents.defaults.userTimezone"].message


def test_an_identity_is_what_people_see() -> None:
    tree = {"agents": {"list": [{"id": "a", "identity": {"name": "Wren", "emoji": "🐦"}}]}}
    identity = checked(tree)[0].agents.list[0].identity
    assert identity is not None
    assert (identity.name, identity.emoji, identity.avatar) == ("Wren", "🐦", "")


def test_the_chat_of_the_owner_is_a_channel_and_a_person() -> None:
    def owner(text: str) -> tuple[str, str, str]:
        config = checked({"messages": {"delivery": {"notifyOwner": text}}})[0]
        to = config.messages.delivery.owner
        assert to is not None
        return to.channel, to.account, to.peer.id

    assert owner("telegram:42") == ("telegram", "default", "42")
    assert owner("matrix/work:@ann:example.org") == ("matrix", "work", "@ann:example.org")
    for wrong in ("telegram", "telegram:", ":42"):
        found = errors({"messages": {"delivery": {"notifyOwner": wrong}}})
        assert "messages.delivery.notifyOwner" in found
    assert checked({})[0].messages.delivery.owner is None


@pytest.mark.parametrize(
    ("tree", "path", "message"),
    [
        ({"agents": {"list": "a"}}, "agents.list", "it should be a list."),
        ({"models": {"providers": "a"}}, "models.providers", "it should be an object."),
    ],
)
def test_a_message_names_the_kinds_of_json(tree: dict[str, Any], path: str, message: str) -> None:
    assert errors(tree)[path].message == message


@pytest.mark.parametrize("key", ["apiKey", "env"])
def test_variables_of_a_skill_are_warned_about_with_the_way_that_works(key: str) -> None:
    _, (warning,) = checked({"skills": {"entries": {"x": {key: "v"}}}})
    assert (warning.path, warning.message) == (
        f"skills.entries.x.{key}",
        "unknown to this version; it has no effect.",
    )
    assert "its own login or from a file" in warning.remedy
