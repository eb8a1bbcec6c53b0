"""Changes of the configuration over the wire: stored values, refusals, events."""

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected

HIDDEN = "__OPENCLAW_REDACTED__"
KEY = "sk-canary-1234567890"
FILE: dict[str, Any] = {
    "gateway": {"port": 1, "auth": {"token": "canary" * 5}},
    "models": {"providers": {"own": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": KEY}}},
    "heartbeat": {"every": "30m"},
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    write(tmp_path, FILE)
    async with running_gateway(tmp_path, config=FILE) as rig:
        yield rig


@pytest.fixture
async def wire(rig: Rig) -> AsyncIterator[Wire]:
    async with connected(rig.url) as wire:
        yield wire


def write(home: Path, tree: Any) -> None:
    text = tree if isinstance(tree, str) else json.dumps(tree)
    (home / "skerry.json").write_text(text)


def stored_tree(home: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((home / "skerry.json").read_text())
    tree.pop("meta", None)
    return tree


async def change(wire: Wire, method: str, tree: Any, **params: Any) -> dict[str, Any]:
    """Asks for a change made of what `config.get` says now; returns the whole answer."""
    base = (await wire.call("config.get"))["hash"]
    raw = tree if isinstance(tree, str) else json.dumps(tree)
    answer: dict[str, Any] = await wire.ask(
        f"config.{method}", {"raw": raw, "baseHash": base, **params}
    )
    return answer


async def test_a_patch_changes_what_it_names_and_is_used_at_once(
    rig: Rig, wire: Wire, tmp_path: Path
) -> None:
    patch = {"messages": {"queue": {"mode": "steer"}}, "gateway": {"tickIntervalMs": 5000}}
    payload = (await change(wire, "patch", patch))["payload"]
    assert payload["ok"]
    assert payload["changedPaths"] == ["gateway.tickIntervalMs", "messages.queue.mode"]
    assert payload["restartPaths"] == payload["pendingPaths"] == ["gateway.tickIntervalMs"]
    assert payload["restart"] == "automatic"
    assert "restarts" in payload["sentinel"]["payload"]["message"]
    assert payload["config"]["models"]["providers"]["own"]["apiKey"] == HIDDEN
    assert rig.context.config().messages.queue.mode == "steer"
    assert stored_tree(tmp_path) == {
        **FILE,
        "gateway": {**FILE["gateway"], "tickIntervalMs": 5000},
        "messages": {"queue": {"mode": "steer"}},
    }


@pytest.mark.parametrize("view", ["raw", "parsed", "resolved", "config"])
async def test_what_was_shown_can_be_written_back_and_changes_nothing(
    wire: Wire, tmp_path: Path, view: str
) -> None:
    shown = (await wire.call("config.get"))[view]
    payload = (await change(wire, "set", shown))["payload"]
    assert (payload["ok"], payload["changedPaths"]) == (True, [])
    assert stored_tree(tmp_path) == FILE


@pytest.mark.parametrize("view", ["parsed", "config"])
async def test_a_hidden_secret_is_kept_when_something_beside_it_changes(
    wire: Wire, tmp_path: Path, view: str
) -> None:
    tree = (await wire.call("config.get"))[view]
    tree["models"]["providers"]["own"]["models"] = [{"id": "m", "name": "Em"}]
    assert (await change(wire, "set", tree))["ok"]
    own = stored_tree(tmp_path)["models"]["providers"]["own"]
    assert own == {**FILE["models"]["providers"]["own"], "models": [{"id": "m", "name": "Em"}]}


async def test_a_hidden_secret_where_there_is_none_is_refused(wire: Wire, tmp_path: Path) -> None:
    patch = {"models": {"providers": {"new": {"baseUrl": "http://h/v1", "apiKey": HIDDEN}}}}
    error = (await change(wire, "patch", patch))["error"]
    assert "is the placeholder" in error["details"]["issues"][0]["message"]
    assert stored_tree(tmp_path) == FILE


async def test_references_and_includes_are_kept(tmp_path: Path) -> None:
    tree = {
        "env": {"vars": {"K": KEY}},
        "models": {"providers": {"own": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "${K}"}}},
        "messages": {"$include": "more.json"},
    }
    write(tmp_path, tree)
    (tmp_path / "more.json").write_text('{"queue": {"mode": "steer"}}')
    async with running_gateway(tmp_path, config=FILE) as rig, connected(rig.url) as wire:
        await rig.context.configuration.reload()
        for view in ("parsed", "resolved", "config"):
            shown = (await wire.call("config.get"))[view]
            shown["agents"] = {"defaults": {"timeoutSeconds": len(view)}}
            assert (await change(wire, "set", shown))["ok"]
            assert KEY not in json.dumps(shown)
            rest = {"agents": {"defaults": {"timeoutSeconds": len(view)}}}
            assert stored_tree(tmp_path) == tree | rest


@pytest.mark.parametrize("method", ["set", "patch", "apply"])
async def test_a_hash_is_asked_for_and_must_be_of_the_present_file(
    wire: Wire, tmp_path: Path, method: str
) -> None:
    error = (await wire.ask(f"config.{method}", {"raw": "{}"}))["error"]
    assert error["message"] == "config base hash required; re-run config.get and retry"
    error = (await wire.ask(f"config.{method}", {"raw": "{}", "baseHash": "0" * 64}))["error"]
    assert error["message"] == "config changed since last load; re-run config.get and retry"
    assert stored_tree(tmp_path) == FILE


async def test_an_unknown_key_is_an_error_where_it_is_written_and_only_there(
    wire: Wire, tmp_path: Path
) -> None:
    error = (await change(wire, "patch", {"nope": 1}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert error["message"] == 'invalid config: <root>: Unrecognized key: "nope"'
    (issue,) = error["details"]["issues"]
    assert (issue["path"], issue["message"]) == ("", 'Unrecognized key: "nope"')
    deep = (await change(wire, "patch", {"messages": {"queue": {"cup": 1}}}))["error"]
    assert deep["details"]["issues"][0]["path"] == "messages.queue"
    assert stored_tree(tmp_path) == FILE


async def test_a_wrong_value_is_named_and_changes_nothing(wire: Wire, tmp_path: Path) -> None:
    error = (await change(wire, "patch", {"messages": {"queue": {"mode": "off"}}}))["error"]
    assert error["details"]["issues"][0]["path"] == "messages.queue.mode"
    assert "issues" in (await change(wire, "set", "{broken"))["error"]["details"]
    assert stored_tree(tmp_path) == FILE


PROTECTED = {
    "gateway.bind": "loopback",
    "gateway.auth": {"mode": "none"},
    "agents.defaults.workspace": "/etc",
    "models.embedded": {"file": "/x.gguf"},
    "env.vars": {"X": "y"},
    "messages.queue": {"mode": "${HOME}"},
    "models.providers": {"new": {"baseUrl": "http://evil/v1", "apiKey": "${AWS_SECRET}"}},
    "models.embedded.$include": "x.json",
    "tools": {"exec": {}},
    "plugins": {"entries": {}},
    "hooks": {"internal": {}},
    "brandNew": 1,
}


@pytest.mark.parametrize("place", PROTECTED)
async def test_what_decides_which_code_runs_is_not_for_the_wire(
    wire: Wire, tmp_path: Path, place: str
) -> None:
    patch: Any = PROTECTED[place]
    for part in reversed(place.split(".")):
        patch = {part: patch}
    assert "error" in await change(wire, "patch", patch)
    assert stored_tree(tmp_path) == FILE


async def test_the_refusal_names_the_places_and_the_second_key(wire: Wire) -> None:
    error = (await change(wire, "patch", {"agents": {"defaults": {"workspace": "/x"}}}))["error"]
    assert error["details"]["code"] == "config.protected"
    assert error["details"]["paths"] == ["agents.defaults.workspace"]
    assert "gateway.control.allowCodeChanges" in error["message"]


async def test_the_second_key_in_the_file_lets_admins_change_the_rest_but_not_itself(
    wire: Wire, tmp_path: Path
) -> None:
    patch = {"agents": {"defaults": {"workspace": str(tmp_path / "w")}}}
    on = {"gateway": {"control": {"allowCodeChanges": True}}}
    assert (await change(wire, "patch", on))["error"]["details"]["code"] == "config.protected"
    write(tmp_path, FILE | {"gateway": FILE["gateway"] | on["gateway"]})
    assert (await change(wire, "patch", patch))["ok"]
    off = {"gateway": {"control": {"allowCodeChanges": False}}}
    for value in (off, {"gateway": {"control": None}}):
        error = (await change(wire, "patch", value))["error"]
        assert error["code"] in {"INVALID_REQUEST", "UNAVAILABLE"}
    assert stored_tree(tmp_path)["gateway"]["control"] == {"allowCodeChanges": True}


@pytest.mark.parametrize("spelling", ["baseUrl", "base_url"])
async def test_a_stored_key_is_not_sent_to_a_new_address(
    wire: Wire, tmp_path: Path, spelling: str
) -> None:
    patch = {"models": {"providers": {"own": {spelling: "http://evil.example/v1"}}}}
    assert "Set the API key again" in (await change(wire, "patch", patch))["error"]["message"]
    assert stored_tree(tmp_path) == FILE
    patch["models"]["providers"]["own"] = {"baseUrl": "http://h/v1", "apiKey": "new-key"}
    assert (await change(wire, "patch", patch))["ok"]


LENT: list[dict[str, Any]] = [
    {"openai": {"baseUrl": "http://evil.example/v1"}},
    {"openai": {"base_url": "http://evil.example/v1"}},
    {"gemini": {"baseUrl": "http://evil.example/v1", "apiKey": ""}},
    {"openai": {"baseUrl": "https://api.openai.com.evil.example/v1", "apiKey": "  "}},
]


@pytest.mark.parametrize("providers", LENT)
@pytest.mark.parametrize("second_key", [False, True])
async def test_a_key_of_the_environment_is_not_sent_to_an_address_from_the_wire(
    wire: Wire, tmp_path: Path, providers: dict[str, Any], *, second_key: bool
) -> None:
    file = FILE | {"gateway": FILE["gateway"] | {"control": {"allowCodeChanges": second_key}}}
    write(tmp_path, file)
    answer = await change(wire, "patch", {"models": {"providers": providers}})
    assert "error" in answer
    assert stored_tree(tmp_path) == file


async def test_who_takes_its_own_key_from_a_strange_address_gets_none_instead(
    wire: Wire, tmp_path: Path
) -> None:
    own = {"openai": {"baseUrl": "http://proxy.example/v1", "apiKey": "mine"}}
    assert (await change(wire, "patch", {"models": {"providers": own}}))["ok"]
    none = {"openai": {"apiKey": None}}
    error = (await change(wire, "patch", {"models": {"providers": none}}))["error"]
    assert error["details"]["paths"] == ["models.providers.openai.baseUrl"]
    assert stored_tree(tmp_path)["models"]["providers"]["openai"] == own["openai"]


async def test_a_header_of_many_goes_to_no_new_address_either(wire: Wire, tmp_path: Path) -> None:
    one = {"baseUrl": "http://127.0.0.1:1/v1", "headers": {"x-key": KEY}}
    file = FILE | {"models": {"providers": {"own": one}}}
    write(tmp_path, file)
    moved = {"baseUrl": "http://evil.example/v1", "headers": {"x-more": "1"}}
    answer = await change(wire, "patch", {"models": {"providers": {"own": moved}}})
    assert "Set the API key again" in answer["error"]["message"]
    assert stored_tree(tmp_path) == file


async def test_an_included_key_is_not_taken_to_another_provider(wire: Wire, tmp_path: Path) -> None:
    include = {"$include": "key.json"}
    (tmp_path / "key.json").write_text(json.dumps({"apiKey": KEY}))
    file = {"models": {"providers": {"own": {"baseUrl": "http://127.0.0.1:1/v1"} | include}}}
    write(tmp_path, file)
    other = {"own": None, "new": {"baseUrl": "http://evil.example/v1"} | include}
    error = (await change(wire, "patch", {"models": {"providers": other}}))["error"]
    assert error["details"]["code"] == "config.protected"
    assert stored_tree(tmp_path) == file


AGENTS: dict[str, Any] = {"agents": {"list": [{"id": "a", "default": True}, {"id": "b"}]}}


@pytest.mark.parametrize(
    "listed",
    [
        [{"id": "c", "default": True}, {"id": "b"}],
        [{"id": "a"}, {"id": "b", "default": True}],
        [{"id": "a", "default": True}, {"id": "b", "workspace": "/x"}],
        [{"id": "a", "default": True}],
        [{"id": "b"}, {"id": "a", "default": True}],
        None,
    ],
)
async def test_no_workspace_moves_from_the_wire(wire: Wire, tmp_path: Path, listed: Any) -> None:
    write(tmp_path, AGENTS)
    assert "error" in await change(wire, "patch", {"agents": {"list": listed}})
    assert stored_tree(tmp_path) == AGENTS
    whole = {"agents": {} if listed is None else {"list": listed}}
    assert "error" in await change(wire, "set", whole)
    assert stored_tree(tmp_path) == AGENTS


GUARDED: list[dict[str, Any]] = [
    {"gateway": None},
    {"gateway": {"auth": None}},
    {"gateway": {"auth": {"token": None}}},
    {"gateway": {"auth": {"token": "other" * 5}}},
    {"gateway": {"auth": {"mode": "none"}}},
    {"gateway": {"auth": {"password": "p"}}},
    {"gateway": {"control": {"allowCodeChanges": True}}},
    {"gateway": {"control": {"allow_code_changes": True}}},
    {"gateway": {"trustedProxies": ["0.0.0.0/0"]}},
    {"gateway": {"controlUi": {"allowedOrigins": ["https://evil.example"]}}},
    {"gateway": []},
    {"Gateway": {"control": {"allowCodeChanges": True}}},
    {"gateway.control.allowCodeChanges": True},
    {"gateway": {"control.allowCodeChanges": True}},
    {"__proto__": {"gateway": {"control": {"allowCodeChanges": True}}}},
    {"plugins": {"load": {"paths": ["evil.py"]}}},
    {"plugins": {"load": {"paths": {"0": "evil.py"}}}},
    {"plugins": []},
    {"$include": "evil.json"},
    {"messages": {"$include": "evil.json"}},
    {"agents": {"defaults": None, "list": [{"id": "x", "workspace": "/x"}]}},
    {"agents": []},
    {"env": {"PATH": "/evil"}},
    {"tools": {"exec": {"command": "evil"}}},
]


@pytest.mark.parametrize("tree", GUARDED, ids=json.dumps)
@pytest.mark.parametrize("method", ["patch", "set", "apply"])
async def test_no_spelling_reaches_what_is_guarded(
    wire: Wire, tmp_path: Path, method: str, tree: dict[str, Any]
) -> None:
    (tmp_path / "evil.json").write_text("{}")
    assert "error" in await change(wire, method, tree)
    assert stored_tree(tmp_path) == FILE


async def test_three_writes_a_minute_and_then_a_wait(rig: Rig, wire: Wire) -> None:
    for seconds in (1, 2, 3):
        patch = {"agents": {"defaults": {"timeoutSeconds": seconds}}}
        assert (await change(wire, "patch", patch))["ok"]
    error = (await change(wire, "patch", {"agents": {"defaults": {"timeoutSeconds": 4}}}))["error"]
    assert error["message"].startswith("rate limit exceeded for config.patch; retry after ")
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert rig.context.config().agents.defaults.timeout_seconds == 3


async def test_an_edit_by_hand_is_used_after_apply(rig: Rig, wire: Wire, tmp_path: Path) -> None:
    text = '{"agents": {"defaults": {"timeoutSeconds": 9}}} // mine\n'
    write(tmp_path, text)
    payload = (await change(wire, "apply", text))["payload"]
    assert "agents.defaults.timeoutSeconds" in payload["changedPaths"]
    assert rig.context.config().agents.defaults.timeout_seconds == 9
    assert (tmp_path / "skerry.json").read_text() == text


@pytest.mark.parametrize("method", ["set", "patch", "apply"])
async def test_a_file_with_comments_keeps_them(wire: Wire, tmp_path: Path, method: str) -> None:
    text = json.dumps(FILE)[:-1] + ", messages: {} /* mine */}\n// end\n"
    (tmp_path / "skerry.json").write_text(text)
    tree = {**(await wire.call("config.get"))["parsed"], "messages": {"queue": {"cap": 7}}}
    assert (await change(wire, method, tree))["ok"]
    after = (tmp_path / "skerry.json").read_text()
    assert after.startswith(json.dumps(FILE)[:-1] + ", messages: {")
    assert "/* mine */" in after
    assert after.endswith("}\n// end\n")


async def test_each_version_has_its_own_hash_and_words(rig: Rig, tmp_path: Path) -> None:
    async with connected(rig.url, minProtocol=3, maxProtocol=3) as wire:
        payload = await wire.call("config.get")
        plain = hashlib.sha256((tmp_path / "skerry.json").read_bytes()).hexdigest()
        assert len(payload["hash"]) == 64
        assert payload["hash"] != plain  # from which a short password could be guessed
        assert "configRevisionHash" not in payload
        error = (await change(wire, "patch", {"nope": 1}))["error"]
        assert error["message"] == "invalid config"


async def test_who_may_only_read_may_not_write(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.write"]) as wire:
        assert (await wire.call("config.get"))["valid"]
        for method in ("set", "patch", "apply", "schema"):
            error = (await wire.ask(f"config.{method}", {}))["error"]
            assert error["details"]["missingScope"] == "operator.admin"


async def test_the_schema_describes_every_key_without_references(wire: Wire) -> None:
    payload = await wire.call("config.schema")
    assert set(payload) == {"schema", "uiHints", "version", "generatedAt"}
    assert "$ref" not in json.dumps(payload["schema"])
    assert payload["uiHints"]["models.providers.*.apiKey"]["sensitive"]


async def test_a_broken_file_is_told_in_status_and_stays_as_it_is(
    wire: Wire, tmp_path: Path
) -> None:
    assert (await wire.call("status"))["configuration"] == {"state": "ok"}
    write(tmp_path, "{broken")
    payload = await wire.call("config.get")
    assert (payload["valid"], payload["exists"]) == (False, True)
    assert "error" in await wire.ask("config.patch", {"raw": "{}", "baseHash": payload["hash"]})
    assert (tmp_path / "skerry.json").read_text() == "{broken"
