"""Starting, awaiting and stopping runs."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.queue import QueueMode
from skerry.model.run import StopReason
from skerry.store import sessions
from tests.support.gateway import FAILED, Rig, running_gateway
from tests.support.wire import Wire, connected, request

RUN = RunId("k1")


async def start(wire: Wire, **params: Any) -> Any:
    sent = {"message": "hello", "idempotencyKey": RUN} | params
    await wire.send(request("agent", sent, id="run"))
    return (await wire.response("run"))["payload"]


@pytest.mark.requirement("agent-rpc-accepts-at-once")
@pytest.mark.requirement("agent-entry-points")
async def test_agent_is_answered_twice(rig: Rig, wire: Wire) -> None:
    assert await start(wire) == {
        "runId": RUN,
        "sessionKey": "agent:main:main",
        "agentId": "main",
        "status": "accepted",
        "acceptedAt": 1_000,
    }
    rig.dispatcher.end(RUN, payloads=("a", "b"))
    final = await wire.response("run")
    assert final["ok"]
    assert final["payload"] == {
        "runId": RUN,
        "status": "ok",
        "summary": "completed",
        "result": {
            "payloads": [{"text": "a", "mediaUrl": None}, {"text": "b", "mediaUrl": None}],
            "meta": {
                "durationMs": 250,
                "agentMeta": {
                    "sessionId": "session-1",
                    "provider": "stub",
                    "model": "stub-model",
                    "usage": {
                        "input": 11,
                        "output": 5,
                        "cacheRead": 0,
                        "cacheWrite": 0,
                        "total": 16,
                    },
                },
                "aborted": False,
                "stopReason": "stop",
            },
        },
    }


async def test_agent_goes_on_in_the_session_of_an_id(rig: Rig, wire: Wire) -> None:
    ids = SessionId("s1")
    await rig.context.store.write(
        lambda unit: sessions.ensure(unit, SessionKey.parse("agent:main:work"), ids, 1)
    )
    assert (await start(wire, sessionId="s1"))["sessionKey"] == "agent:main:work"


async def test_agent_begins_a_session_for_an_id_that_is_unknown(wire: Wire) -> None:
    assert (await start(wire, sessionId="First"))["sessionKey"] == "agent:main:explicit:first"


@pytest.mark.requirement("wire-idempotency-required")
async def test_a_key_in_flight_is_told_and_a_finished_one_replayed(rig: Rig, wire: Wire) -> None:
    await start(wire)
    again = {"message": "another text", "idempotencyKey": RUN}
    assert await wire.call("agent", again) == {
        "runId": RUN,
        "sessionKey": "agent:main:main",
        "agentId": "main",
        "status": "in_flight",
    }
    rig.dispatcher.end(RUN)
    final = (await wire.response("run"))["payload"]
    assert await wire.call("agent", again) == final


@pytest.mark.requirement("wire-idempotency-required")
@pytest.mark.parametrize("method", ["agent", "chat.send"])
@pytest.mark.parametrize("key", [None, "", "x" * 257, "a\nb", "ключ"])
async def test_an_idempotency_key_is_required(
    rig: Rig, wire: Wire, method: str, key: str | None
) -> None:
    params = {"message": "x", "sessionKey": "main"} | (
        {} if key is None else {"idempotencyKey": key}
    )
    error = (await wire.ask(method, params))["error"]
    assert error["message"].startswith(f"invalid {method} params: ")
    assert "idempotencyKey" in error["message"]
    assert rig.dispatcher.submitted == []


async def test_a_failed_run_is_an_error_with_its_payload(rig: Rig, wire: Wire) -> None:
    await start(wire)
    rig.dispatcher.end(RUN, stop_reason=StopReason.ERROR, payloads=("part",), error=FAILED)
    final = await wire.response("run")
    assert not final["ok"]
    assert final["error"] == {
        "code": "UNAVAILABLE",
        "message": FAILED.message,
        "details": {"code": FAILED.code},
        "retryable": True,
    }
    assert (final["payload"]["status"], final["payload"]["summary"]) == ("error", FAILED.message)
    assert final["payload"]["result"]["payloads"] == [{"text": "part", "mediaUrl": None}]
    replayed = await wire.ask("agent", {"message": "hello", "idempotencyKey": RUN})
    assert replayed | {"id": "run"} == final


async def test_what_a_request_says_of_its_run_arrives(rig: Rig, wire: Wire) -> None:
    await start(
        wire,
        sessionKey="telegram:dm:42",
        agentId="main",
        timeout=30,
        extraSystemPrompt="be brief",
        thinking="low",
        deliver=False,
        label=" Trip ",
    )
    (submitted,) = rig.dispatcher.submitted
    assert str(submitted.key) == "agent:main:telegram:direct:42"
    assert (submitted.text, submitted.timeout) == ("hello", 30.0)
    assert submitted.extra_system_prompt == "be brief"
    assert submitted.label == "Trip"
    assert submitted.queue_mode is QueueMode.OWN_RUN


async def test_a_key_of_another_agent_is_refused(rig: Rig, wire: Wire) -> None:
    params = {"message": "x", "idempotencyKey": "k", "agentId": "main"}
    error = (await wire.ask("agent", params | {"sessionKey": "agent:work:main"}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert "it belongs to agent 'work', not to 'main'" in error["message"]
    assert rig.dispatcher.submitted == []
    error = (await wire.ask("agent", params | {"sessionKey": "agent:main"}))["error"]
    assert error["details"] == {"code": "request.session_key"}


async def test_fields_that_only_the_inside_may_set_are_refused(wire: Wire) -> None:
    for field in ("internalRuntimeHandoffId", "inputProvenance", "cwd"):
        params = {"message": "x", "idempotencyKey": "k", field: "x"}
        error = (await wire.ask("agent", params))["error"]
        assert error["message"].startswith(f"agent cannot take '{field}': ")


async def test_two_identical_requests_back_to_back_run_once(wire: Wire) -> None:
    params = {"message": "x", "idempotencyKey": RUN}
    await wire.send(request("agent", params, id="one"))
    await wire.send(request("agent", params, id="two"))
    assert (await wire.response("one"))["payload"]["status"] == "accepted"
    assert (await wire.response("two"))["payload"]["status"] == "in_flight"


@pytest.mark.requirement("agent-wait-status")
async def test_waiting_gives_how_the_run_ended(rig: Rig, wire: Wire) -> None:
    await start(wire)
    await wire.send(request("agent.wait", {"runId": RUN}, id="wait"))
    rig.dispatcher.end(RUN)
    assert (await wire.response("wait"))["payload"] == {
        "runId": RUN,
        "status": "ok",
        "startedAt": 1_000,
        "endedAt": 1_250,
        "stopReason": "stop",
        "terminalReply": {"disposition": "visible", "text": "pong"},
    }


@pytest.mark.requirement("agent-wait-status")
async def test_waiting_for_a_failed_run_gives_its_error(rig: Rig, wire: Wire) -> None:
    await start(wire)
    rig.dispatcher.end(RUN, stop_reason=StopReason.TIMEOUT, error=None)
    answer = await wire.call("agent.wait", {"runId": RUN})
    assert (answer["status"], answer["stopReason"], answer["error"]) == (
        "error",
        "timeout",
        "The run failed.",
    )


@pytest.mark.requirement("agent-wait-status")
@pytest.mark.requirement("agent-wait-default-30s")
async def test_waiting_ends_without_ending_the_run(rig: Rig, wire: Wire) -> None:
    await start(wire)
    answer = await wire.call("agent.wait", {"runId": RUN, "timeoutMs": 10})
    assert answer == {"runId": RUN, "status": "timeout"}
    assert rig.dispatcher.active() == [RUN]


@pytest.mark.requirement("agent-wait-default-30s")
async def test_waiting_takes_30_seconds_where_nothing_is_said(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []

    async def wait(_run_id: RunId, timeout: float | None) -> None:  # noqa: ASYNC109 - the port has it
        asked.append(timeout)

    monkeypatch.setattr(rig.dispatcher, "wait", wait)
    await wire.call("agent.wait", {"runId": RUN})
    assert asked == [30.0]


async def test_chat_send_answers_at_once_and_knows_its_key_again(rig: Rig, wire: Wire) -> None:
    params = {"sessionKey": "main", "message": "hi", "idempotencyKey": RUN}
    assert await wire.call("chat.send", params) == {"runId": RUN, "status": "started"}
    assert await wire.call("chat.send", params) == {"runId": RUN, "status": "in_flight"}
    rig.dispatcher.end(RUN)
    assert await wire.call("chat.send", params) == {"runId": RUN, "status": "ok"}


@pytest.mark.parametrize(("asked", "mode"), [(None, None), ("steer", "steer")])
async def test_chat_send_enters_a_running_run_as_configured_or_asked(
    tmp_path: Path, asked: str | None, mode: str | None
) -> None:
    config = {"messages": {"queue": {"mode": "followup"}}}
    async with running_gateway(tmp_path, config=config) as rig, connected(rig.url) as wire:
        params = {"sessionKey": "main", "message": "hi", "idempotencyKey": RUN}
        await wire.call("chat.send", params | ({"queueMode": asked} if asked else {}))
        assert [request.queue_mode for request in rig.dispatcher.submitted] == [mode]


async def test_aborting_stops_the_run_and_keeps_what_was_said(rig: Rig, wire: Wire) -> None:
    await wire.call("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": RUN})
    rig.dispatcher.tell(RUN, RunStarted(1))
    rig.dispatcher.tell(RUN, TextDelta("so far"))
    await wire.send(request("chat.abort", {"sessionKey": "main", "runId": RUN}, id="abort"))
    event = await wire.event("chat", state="aborted")
    assert event["payload"]["stopReason"] == "rpc"
    assert event["payload"]["message"]["content"] == [{"type": "text", "text": "so far"}]
    answer = await wire.response("abort")
    assert answer["payload"] == {"ok": True, "aborted": True, "runIds": [RUN]}


async def test_aborting_nothing_is_no_error(wire: Wire) -> None:
    answer = await wire.call("chat.abort", {"sessionKey": "main"})
    assert answer == {"ok": True, "aborted": False, "runIds": []}


async def test_a_run_goes_on_when_its_client_leaves(rig: Rig) -> None:
    async with connected(rig.url) as wire:
        await start(wire)
    with anyio.fail_after(60):
        while rig.dispatcher.waiting:
            await anyio.lowlevel.checkpoint()
    assert rig.dispatcher.active(SessionKey.main()) == [RUN]


@pytest.mark.parametrize("method", ["agent", "chat.send"])
@pytest.mark.parametrize(
    "key",
    [
        *("approval-5", "boot-main-1", "announce-x", "cron-2f1c-1795525200000", "hook-1f"),
        *("heartbeat-main-1795525200000", "send-1f-turn-1"),
    ],
)
@pytest.mark.abuse(118)
async def test_a_key_of_the_gateways_own_runs_is_refused(wire: Wire, method: str, key: str) -> None:
    params = {"message": "hello", "idempotencyKey": key}
    if method == "chat.send":
        params["sessionKey"] = "main"
    refused = (await wire.ask(method, params))["error"]
    assert refused["details"]["code"] == "request.reserved_key"
    assert "UUID" in refused["details"]["remedy"]
