"""Tools about conversations: visible conversations, sent messages, and forbidden changes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from skerry.app.build import Application
from skerry.app.tool_host import MethodCalls
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.policy.access import READ, WRITE
from skerry.ports.tool import ToolContext, offered
from tests.support.whole import whole_gateway

OWN: Final = SessionKey.main()
OTHER: Final = SessionKey.parse("agent:main:work")
FOREIGN: Final = SessionKey.parse("agent:second:main")
CALLER: Final = Caller(OWN, PeerKind.DIRECT, Origin.OWNER, is_private=True)
NAMES: Final = {
    "agents_list",
    "gateway",
    "message",
    "session_status",
    "sessions_history",
    "sessions_list",
    "sessions_send",
}


def config(visibility: str, **tools: object) -> dict[str, Any]:
    return {
        "tools": {"profile": "full", "sessions": {"visibility": visibility}, **tools},
        "agents": {"list": [{"id": "main", "default": True}, {"id": "second"}]},
    }


@asynccontextmanager
async def gateway(home: Path, given: Mapping[str, Any] | None) -> AsyncIterator[Application]:
    """Gives a gateway in which three conversations have a message."""
    async with whole_gateway(home, Hooks(), config=given) as (application, _):
        for key in (OWN, OTHER, FOREIGN):
            if key.agent in application.settings.config.agents.ids:
                await say(application, key, f"hello from {key}")
        yield application


async def say(application: Application, key: SessionKey, text: str) -> None:
    run = RunId(f"r-{key}")
    request = RunRequest(run, key, text, origin=Origin.OWNER)
    with anyio.fail_after(60):
        await application.dispatch.submit(request)
        await application.dispatch.wait(run, 60)


async def call(
    application: Application, name: str, caller: Caller = CALLER, **arguments: object
) -> dict[str, Any]:
    workspace = RootedFolder(application.settings.config.workspace(caller.key.agent))
    with anyio.fail_after(60):
        tool = application.dispatch.runtime.tools[name]
        result = await tool.run(arguments, ToolContext(workspace, caller=caller))
    assert not result.is_error
    payload: dict[str, Any] = json.loads(result.text)
    assert result.details == payload
    return payload


async def test_they_are_offered_only_where_the_configuration_names_them(tmp_path: Path) -> None:
    def names(application: Application) -> set[str]:
        tools = application.dispatch.runtime.tools.values()
        return {tool.spec.name for tool in offered(tools, CALLER)} & NAMES

    async with gateway(tmp_path / "plain", None) as application:
        assert names(application) == set()
    async with gateway(tmp_path / "full", config("self")) as application:
        assert names(application) == NAMES
    some = {"tools": {"alsoAllow": ["session_status"]}}
    async with gateway(tmp_path / "some", some) as application:
        assert names(application) == {"session_status"}


@pytest.mark.parametrize(
    ("visibility", "session_keys"),
    [
        ("self", {OWN}),
        ("tree", {OWN}),
        ("agent", {OWN, OTHER}),
        ("all", {OWN, OTHER}),
    ],
)
@pytest.mark.abuse(55)
async def test_a_conversation_sees_what_the_visibility_allows(
    tmp_path: Path, visibility: str, session_keys: set[SessionKey]
) -> None:
    async with gateway(tmp_path / "home", config(visibility)) as application:
        listed = await call(application, "sessions_list", messageLimit=1)
        assert {row["key"] for row in listed["sessions"]} == {str(key) for key in session_keys}
        for key in (OWN, OTHER, FOREIGN):
            if key in session_keys:
                history = await call(application, "sessions_history", sessionKey=str(key))
                assert f"hello from {key}" in history["messages"][0]["text"]
                assert (await call(application, "session_status", sessionKey=str(key)))[
                    "sessionKey"
                ] == str(key)
            else:
                with pytest.raises(ToolError, match="not visible"):
                    await call(application, "sessions_history", sessionKey=str(key))
                with pytest.raises(ToolError, match="not visible"):
                    await call(application, "session_status", sessionKey=str(key))
                with pytest.raises(ToolError, match="not visible"):
                    await call(application, "sessions_send", sessionKey=str(key), message="hi")


async def test_a_conversation_with_others_sees_itself_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", config("all")) as application:
        group = Caller(OTHER, PeerKind.GROUP, Origin.OWNER)
        listed = await call(application, "sessions_list", group)
        assert [row["key"] for row in listed["sessions"]] == [str(OTHER)]
        with pytest.raises(ToolError, match="not visible"):
            await call(application, "sessions_history", group, sessionKey=str(OWN))


@pytest.mark.abuse(55)
async def test_a_guest_learns_no_key_by_a_label_and_only_the_owner_sets_a_model(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "home", config("agent")) as application:
        patch = MethodCalls(application.context)
        await patch("sessions.patch", {"key": str(OTHER), "label": "taxes"}, (WRITE,))
        guest = Caller(SessionKey.parse("memory:group:team"), PeerKind.GROUP, Origin.STRANGER)
        for label in ("taxes", "unknown"):
            with pytest.raises(ToolError, match=f"no session has the label {label}"):
                await call(application, "sessions_send", guest, label=label, message="hi")
        payload = await call(application, "sessions_send", label="taxes", message="hi")
        assert payload["sessionKey"] == str(OTHER)
        with pytest.raises(ToolError, match="Only your owner changes the model"):
            await call(application, "session_status", guest, model="default")
        assert (await call(application, "session_status", model="default"))["sessionKey"] == str(
            OWN
        )
        tool = application.dispatch.runtime.tools["session_status"]
        root = RootedFolder(application.settings.config.workspace(OWN.agent))
        tainted = ToolContext(root, caller=CALLER, taint=frozenset({Origin.WEB}))
        with pytest.raises(ToolError, match="Only your owner changes the model"):
            await tool.run({"model": "default"}, tainted)


async def test_other_agents_are_seen_where_both_take_part(tmp_path: Path) -> None:
    configuration = config("all", agentToAgent={"enabled": True, "allow": ["main", "second"]})
    async with gateway(tmp_path / "home", configuration) as application:
        listed = await call(application, "sessions_list", kinds=["main"])
        assert {row["key"] for row in listed["sessions"]} == {str(OWN), str(FOREIGN)}
        agents = await call(application, "agents_list")
        assert [agent["id"] for agent in agents["agents"]] == ["main", "second"]
    async with gateway(tmp_path / "alone", config("all")) as application:
        agents = await call(application, "agents_list")
        assert [agent["id"] for agent in agents["agents"]] == ["main"]


@pytest.mark.abuse(56)
async def test_a_message_to_another_conversation_is_not_its_owners_word(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", config("agent")) as application:
        payload = await call(
            application, "sessions_send", session_key=str(OTHER), message="/model other"
        )
        assert (payload["status"], payload["sessionKey"]) == ("ok", str(OTHER))
        assert payload["reply"]
        history = await call(application, "sessions_history", sessionKey=str(OTHER))
        text = f"[Message of session {OWN}]\n/model other"
        assert text in [row["text"] for row in history["messages"] if row["role"] == "user"]
        methods = MethodCalls(application.context)
        shown = await methods("chat.history", {"sessionKey": str(OTHER)}, (READ,))
        sent = [row for row in shown["messages"] if row["role"] == "user"]
        assert {row["origin"] for row in sent if json.dumps(text)[1:-1] in json.dumps(row)} == {
            "tool"
        }
        with pytest.raises(ToolError, match="This is your own session"):
            await call(application, "sessions_send", sessionKey=str(OWN), message="hi")
        later = await call(
            application, "sessions_send", sessionKey=str(OTHER), message="hi", timeoutSeconds=0
        )
        assert later["status"] == "accepted"


@pytest.mark.abuse(22)
@pytest.mark.parametrize(
    "patch",
    [
        {"tools": {"exec": {"security": "full"}}},
        {"tools": {"sessions": {"visibility": "all"}}},
        {"agents": {"defaults": {"sandbox": {"mode": "off"}}}},
        {"gateway": {"auth": {"token": "x"}}},
        {"models": {"providers": {"x": {"baseUrl": "http://evil.example"}}}},
        {"messages": {"queue": {"mode": "collect"}}, "commands": {"ownerAllowFrom": ["*"]}},
        {"tools": None},
        {"agents": {"defaults": {}}},
        {"$include": "x.json"},
    ],
)
async def test_a_model_changes_no_key_that_loosens_a_gate(
    tmp_path: Path, patch: dict[str, Any]
) -> None:
    async with whole_gateway(tmp_path / "home", Hooks(), config=config("self")) as (application, _):
        before = application.settings.config.path.read_bytes()
        with pytest.raises(ToolError, match="may not change"):
            await call(application, "gateway", action="config.patch", raw=json.dumps(patch))
        assert application.settings.config.path.read_bytes() == before


async def test_the_owners_model_reads_and_changes_harmless_keys(tmp_path: Path) -> None:
    async with whole_gateway(tmp_path / "home", Hooks(), config=config("self")) as (application, _):
        shown = await call(application, "gateway", action="config.get")
        assert shown["hash"]
        secret = application.context.config().gateway.auth.secret
        assert secret
        assert secret not in json.dumps(shown)
        raw = '{agents: {defaults: {userTimezone: "Europe/Vienna"}}}'
        assert (await call(application, "gateway", action="config.patch", raw=raw))["ok"] is True
        assert application.context.config().agents.defaults.user_timezone == "Europe/Vienna"
        with pytest.raises(ToolError, match="reserved for your owner"):
            await call(application, "gateway", action="restart")
        guest = Caller(OWN, PeerKind.GROUP, Origin.STRANGER)
        with pytest.raises(ToolError, match="Only the owner may read"):
            await call(application, "gateway", guest, action="config.get")


async def test_a_history_is_cut_to_its_limits(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", config("agent")) as application:
        run = RunId("long")
        await application.dispatch.submit(RunRequest(run, OTHER, "x" * 9000, origin=Origin.OWNER))
        with anyio.fail_after(60):
            await application.dispatch.wait(run, 60)
        history = await call(application, "sessions_history", sessionKey=str(OTHER))
        assert max(len(row["text"]) for row in history["messages"]) == 4001
        short = await call(application, "sessions_history", sessionKey=str(OTHER), limit=1)
        assert len(short["messages"]) == 1
