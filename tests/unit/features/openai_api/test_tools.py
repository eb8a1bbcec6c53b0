"""Calls of tools over HTTP: the gates of a model's calls, a list of refused tools, keys."""

from pathlib import Path
from typing import Any

import pytest

from skerry.features.openai_api.tool_routes import REFUSED
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BeforeToolCall, BeforeToolCallChange
from skerry.model.ids import MAIN_AGENT
from skerry.model.message import AssistantMessage, ToolResultMessage
from skerry.runtime import call_approvals
from skerry.testing.model import ScriptedModel
from tests.support.api_client import AUTH, TOOLS, ApiClient, chat_body, serving_api
from tests.support.hooks import on

READ = {"tool": "read", "args": {"path": "note.txt"}}


def workspace(api: ApiClient) -> Path:
    return api.application.context.config().workspace(MAIN_AGENT)


async def invoke(api: ApiClient, body: Any, headers: dict[str, str] = AUTH) -> Any:
    return await api(body, headers, TOOLS)


def error(response: Any) -> dict[str, Any]:
    value = response.json()
    assert value["ok"] is False
    found: dict[str, Any] = value["error"]
    return found


@pytest.mark.abuse(16)
async def test_a_tool_is_called_as_a_run_without_a_model(tmp_path: Path) -> None:
    model = ScriptedModel([])
    async with serving_api(tmp_path / "h", model) as api:
        response = await invoke(api, READ)
        assert response.status_code == 200
        value = response.json()
        assert value["ok"] is True
        assert value["result"]["content"][0]["type"] == "text"
        assert "a note of main" in value["result"]["content"][0]["text"]
        entries = await api.transcript(response.headers["x-skerry-session-key"])
        assert 'Call of the tool read over HTTP: {"path":"note.txt"}' in entries[0].text
        assert isinstance(entries[1], AssistantMessage)
        assert entries[1].tool_calls[0].arguments == {"path": "note.txt"}
        assert isinstance(entries[2], ToolResultMessage)
        assert model.requests == []


@pytest.mark.abuse(16)
async def test_these_tools_are_refused_over_http_by_default(tmp_path: Path) -> None:
    """The list: whoever adds a tool that acts decides here whether a caller may use it."""
    assert sorted(REFUSED) == [
        *("apply_patch", "cron", "edit", "exec", "gateway", "nodes", "process"),
        *("sessions_send", "sessions_spawn", "subagents", "write"),
    ]
    async with serving_api(tmp_path / "h", tools={"profile": "full"}) as api:
        for name in (*sorted(REFUSED), "bash", "Exec", " EXEC "):
            response = await invoke(api, {"tool": name, "args": {}, "dryRun": True})
            assert response.status_code == 404, name
            assert error(response)["code"] == "tool_not_available"
        assert (await invoke(api, {**READ, "dryRun": True})).json() == {
            "ok": True,
            "dryRun": True,
            "tool": "read",
        }


async def test_lists_of_the_gateway_permit_and_refuse_tools(tmp_path: Path) -> None:
    lists = {"tools": {"allow": ["write"], "deny": ["read"]}}
    async with serving_api(tmp_path / "h", gateway=lists) as api:
        assert (await invoke(api, READ)).status_code == 404
        body = {"tool": "write", "args": {"path": "new.txt", "content": "x"}}
        assert (await invoke(api, body)).status_code == 200
        assert (workspace(api) / "new.txt").read_text() == "x"


async def test_the_rules_of_the_agent_apply_too(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h", tools={"deny": ["read"]}) as api:
        response = await invoke(api, READ)
        assert (response.status_code, error(response)["code"]) == (404, "tool_not_available")
        assert (await invoke(api, {"tool": "none_such"})).status_code == 404


async def test_hooks_see_the_call_and_may_block_it(tmp_path: Path) -> None:
    hooks, seen = Hooks(), list[Any]()

    async def block(call: BeforeToolCall) -> BeforeToolCallChange:
        seen.append((call.tool_name, dict(call.params)))
        return BeforeToolCallChange(block=True, block_reason="not today")

    on(hooks.before_tool_call, block)
    async with serving_api(tmp_path / "h", hooks=hooks) as api:
        response = await invoke(api, READ)
        assert response.status_code == 500
        assert "not today" in error(response)["message"]
    assert seen == [("read", {"path": "note.txt"})]


async def test_a_call_that_needs_a_person_waits_for_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.0)
    lists = {"tools": {"allow": ["write"]}}
    async with serving_api(tmp_path / "h", gateway=lists) as api:
        await api(chat_body("a", "claimed", "b", user="ada"))
        body = {"tool": "write", "args": {"path": "AGENTS.md", "content": "x"}}
        assert (await invoke(api, body)).status_code == 200
        body["args"] = {"path": "AGENTS.md", "content": "of others"}
        tainted = await invoke(api, {**body, "sessionKey": "openai-user:ada"})
        assert tainted.status_code == 202
        details = tainted.json()["result"]["details"]
        assert details["status"] == "approval-pending"
        assert (workspace(api) / "AGENTS.md").read_text() == "x"


async def test_failures_of_tools_and_bodies_are_errors(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        missing = await invoke(api, {"tool": "read", "args": {"path": "none.txt"}})
        assert (missing.status_code, error(missing)["code"]) == (500, "tool_failed")
        assert missing.headers["x-should-retry"] == "false"
        outside = await invoke(api, {"tool": "read", "args": {"path": "../skerry.json"}})
        assert outside.status_code == 500
        assert "5eed" not in outside.text
        assert (await invoke(api, {"args": {}})).status_code == 400
        assert (await invoke(api, READ, {})).status_code == 401
        assert (await api(None, AUTH, TOOLS, "GET")).status_code == 405
        assert (await api({}, AUTH, "/tools/other")).status_code == 404
        unknown = await invoke(api, {**READ, "agentId": "none"})
        assert unknown.status_code == 404
        assert (await invoke(api, {**READ, "sessionKey": "agent:none:x"})).status_code == 404
    async with serving_api(tmp_path / "off", http={"endpoints": {}}) as api:
        off = await invoke(api, READ)
        assert "toolsInvoke.enabled" in error(off)["message"]


async def test_a_repeated_key_makes_no_second_call(tmp_path: Path) -> None:
    keyed, home = {**AUTH, "idempotency-key": "k"}, tmp_path / "h"
    async with serving_api(home) as api:
        first = await invoke(api, READ, keyed)
        (workspace(api) / "note.txt").write_text("changed")
        again = await invoke(api, READ, keyed)
        assert again.json() == first.json()
        assert again.headers["x-skerry-repeated"] == "true"
        other = await invoke(api, {**READ, "args": {"path": "x"}}, keyed)
        assert other.status_code == 422
