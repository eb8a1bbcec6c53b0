"""A tool call that a person must approve, over the wire: within its run, late, never, once only."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.app.build import Application
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import AfterToolCall, AfterToolCallChange
from skerry.hooks.runner import Handler
from skerry.model.ids import AgentId
from skerry.model.message import TextBlock
from skerry.runtime import call_approvals
from skerry.testing.clock import FakeClock
from tests.support.asking_tool import AskingTool
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

REQUESTED, RESOLVED = "exec.approval.requested", "exec.approval.resolved"


def asking(text: str) -> str:
    return f"call asking {json.dumps({'text': text})}"


@asynccontextmanager
async def gateway(
    home: Path, tool: AskingTool, **options: Any
) -> AsyncIterator[tuple[Application, Wire]]:
    async with (
        whole_gateway(home, Hooks(), **options) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(tool)
        yield application, wire


async def begin(wire: Wire, text: str, key: str = "r1", mode: str | None = None) -> None:
    params = {"sessionKey": "main", "message": text, "idempotencyKey": key}
    if mode:
        params["queueMode"] = mode
    await wire.send({"type": "req", "id": key, "method": "chat.send", "params": params})


async def final(wire: Wire, **payload: Any) -> str:
    event = await wire.event("chat", state="final", **payload)
    return json.dumps(event["payload"].get("message"))


def ran(application: Application) -> list[str]:
    file = application.settings.config.workspace(AgentId("main")) / "ran.txt"
    return file.read_text().split() if file.exists() else []


@pytest.mark.abuse(68)
async def test_an_allowed_call_runs_once_in_its_run(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        assert ran(application) == []
        (listed,) = await wire.call("exec.approval.list")
        assert listed["id"] == payload["id"]
        assert listed["request"]["command"] == "ask a"
        assert (listed["request"]["host"], listed["request"]["rule"]) == ("gateway", "on-miss")
        assert listed["request"]["sessionKey"] == "agent:main:main"
        assert listed["expiresAtMs"] - listed["createdAtMs"] == 120_000
        params = {"id": payload["id"], "decision": "allow-once"}
        assert await wire.call("exec.approval.resolve", params) == {"ok": True}
        assert "ran a" in await final(wire)
        assert wire.seen(RESOLVED)["decision"] == "allow-once"
        assert ran(application) == ["a"]
        again = await wire.ask("exec.approval.resolve", params)
        assert (again["ok"], again["error"]["details"]["code"]) == (False, "approval.not_open")
        assert await wire.call("exec.approval.list") == []


async def test_a_denied_call_does_not_run_and_its_result_names_the_rule(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "deny"})
        assert "denied by the rule on-miss" in await final(wire)
        assert ran(application) == []


async def test_a_late_word_runs_the_call_once_and_its_outcome_is_a_message_with_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        assert "approval-pending" in await final(wire, runId="r1")
        assert ran(application) == []
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        text = await final(wire, runId=f"approval-{payload['id']}")
        assert "ran a" in text
        assert ran(application) == ["a"]
        history = await wire.call("chat.history", {"sessionKey": "main"})
        texts = [
            json.dumps(message) for message in history["messages"] if message["role"] == "user"
        ]
        assert len(texts) == 2
        assert "was approved and has ended" in texts[1]
        assert "untrusted-result" in texts[1]


async def test_a_late_no_is_told_and_the_call_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        await final(wire, runId="r1")
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "deny"})
        assert "was denied by" in await final(wire, runId=f"approval-{payload['id']}")
        assert ran(application) == []


async def test_the_same_call_made_again_finds_the_pending_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        for key in ("r1", "r2"):
            await begin(wire, asking("a"), key)
            assert "approval-pending" in await final(wire, runId=key)
        (pending,) = await wire.call("exec.approval.list")
        await wire.call("exec.approval.resolve", {"id": pending["id"], "decision": "allow-once"})
        await final(wire, runId=f"approval-{pending['id']}")
        await begin(wire, asking("b"), "r3")
        await final(wire, runId="r3")
        assert ran(application) == ["a"]
        (other,) = await wire.call("exec.approval.list")
        assert other["id"] != pending["id"]


async def test_an_abort_ends_the_wait_and_the_call_never_runs(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        await wire.call("chat.abort", {"sessionKey": "main", "runId": "r1"})
        resolved = (await wire.event(RESOLVED))["payload"]
        assert (resolved["id"], resolved["decision"]) == (payload["id"], "deny")
        params = {"id": payload["id"], "decision": "allow-once"}
        assert not (await wire.ask("exec.approval.resolve", params))["ok"]
        assert ran(application) == []


async def test_a_message_that_steers_ends_the_wait(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        await begin(wire, "look elsewhere", "r2", "steer")
        await final(wire)
        (pending,) = await wire.call("exec.approval.list")
        assert pending["id"] == payload["id"]
        history = json.dumps(await wire.call("chat.history", {"sessionKey": "main"}))
        assert "approval-pending" in history
        assert ran(application) == []


async def test_the_wait_takes_no_time_of_the_run_and_no_slot_of_others(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"timeoutSeconds": 1, "maxConcurrent": 1}}}
    async with gateway(tmp_path / "home", AskingTool(), config=config) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        params = {"sessionKey": "agent:main:other", "message": "hi", "idempotencyKey": "o"}
        await wire.call("chat.send", params)
        assert "echo: " in await final(wire, runId="o")
        await anyio.sleep(1.2)  # longer than the run may take
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        assert "ran a" in await final(wire, runId="r1")
        assert ran(application) == ["a"]


@pytest.mark.abuse(67)
async def test_what_the_approval_is_bound_to_is_compared_again_at_the_start(tmp_path: Path) -> None:
    tool = AskingTool()
    async with gateway(tmp_path / "home", tool) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        tool.bound = b"another script"
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        assert "denied by the rule approval-changed" in await final(wire)
        assert ran(application) == []


async def test_a_request_that_reached_nobody_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (application, address),
        connected(
            address.url,
            auth={"token": address.token},
            scopes=["operator.read", "operator.write"],
        ) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        await begin(wire, asking("a"))
        assert "reached nobody" in await final(wire)
        refused = await wire.ask("exec.approval.list")
        assert refused["error"]["details"]["missingScope"] == "operator.approvals"


@pytest.mark.abuse(66)
@pytest.mark.abuse(69)
async def test_hidden_characters_of_a_command_are_shown_as_escapes(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (_, wire):
        await begin(wire, asking("x\u202egnp\u200b\n\u00a0"))
        command = (await wire.event(REQUESTED))["payload"]["request"]["command"]
        assert command == "ask x\\u{202e}gnp\\u{200b}\\n\\u{a0}"


async def test_a_client_asks_about_a_command_of_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", AskingTool()) as (_, wire):
        params = {"command": "echo hi", "cwd": "/srv", "host": "gateway", "timeoutMs": 8000}
        request = {"type": "req", "id": "q", "method": "exec.approval.request", "params": params}
        await wire.send(request)
        payload = (await wire.event(REQUESTED))["payload"]
        assert payload["request"]["command"] == "echo hi"
        assert payload["expiresAtMs"] - payload["createdAtMs"] == 8000
        await wire.send(
            {
                "type": "req",
                "id": "a",
                "method": "exec.approval.resolve",
                "params": {"id": payload["id"], "decision": "allow-once"},
            }
        )
        answered = (await wire.response("q"))["payload"]
        assert answered == {
            "id": payload["id"],
            "decision": "allow-once",
            "createdAtMs": payload["createdAtMs"],
            "expiresAtMs": payload["expiresAtMs"],
        }
        waited = await wire.call("exec.approval.waitDecision", {"id": payload["id"]})
        assert waited["decision"] == "allow-once"


async def test_hooks_of_results_see_a_late_outcome_before_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    async with gateway(tmp_path / "home", AskingTool()) as (application, wire):

        async def hide(payload: AfterToolCall) -> AfterToolCallChange | None:
            if "ran secret" not in payload.result.text:
                return None
            hidden = replace(payload.result, content=(TextBlock("hidden"),))
            return AfterToolCallChange(result=hidden)

        application.hooks.after_tool_call.add(Handler("test", hide))
        await begin(wire, asking("secret"))
        asked = (await wire.event(REQUESTED))["payload"]
        await final(wire, runId="r1")
        await wire.call("exec.approval.resolve", {"id": asked["id"], "decision": "allow-once"})
        text = await final(wire, runId=f"approval-{asked['id']}")
        assert "hidden" in text
        assert "ran secret" not in text


@pytest.mark.abuse(68)
@pytest.mark.requirement("exec-approval-expires")
async def test_an_answer_to_an_expired_request_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    clock = FakeClock()
    async with gateway(tmp_path / "home", AskingTool(), clock=clock) as (application, wire):
        await begin(wire, asking("a"))
        payload = (await wire.event(REQUESTED))["payload"]
        await final(wire, runId="r1")
        clock.advance(120_000)
        params = {"id": payload["id"], "decision": "allow-once"}
        assert not (await wire.ask("exec.approval.resolve", params))["ok"]
        assert await wire.call("exec.approval.list") == []
        await begin(wire, asking("b"), "r2")  # what is new is looked at, and what has expired
        resolved = await wire.event(RESOLVED, id=payload["id"])
        assert resolved["payload"]["decision"] is None
        assert "was not approved in time" in await final(wire, runId=f"approval-{payload['id']}")
        assert ran(application) == []
