"""Requests after the handshake: answers, refusals, and recovery from invalid ones."""

import json
import random

import anyio
import pytest

from skerry.gateway.connection import MAX_IN_FLIGHT
from skerry.gateway.dispatch import MethodTable
from skerry.model.errors import BusyError, StoreFailedError, UnconfiguredAgentError
from skerry.policy.access import Role
from tests.support.gateway import Rig
from tests.support.wire import Wire, connected, request


@pytest.mark.requirement("wire-transport-json-text")
async def test_frames_are_text_with_one_json_value_each(wire: Wire) -> None:
    await wire.send(request("agents.list", id="mine"))
    with anyio.fail_after(60):
        while json.loads(frame := await wire.socket.recv()).get("id") != "mine":
            assert isinstance(frame, str)  # an event before the answer
    assert isinstance(frame, str)


@pytest.mark.requirement("wire-request-response")
async def test_a_request_is_answered_under_its_id(wire: Wire) -> None:
    await wire.send(request("agents.list", id="mine"))
    answer = await wire.response("mine")
    assert answer.keys() == {"type", "id", "ok", "payload"}
    assert answer["payload"]["defaultId"] == "main"


@pytest.mark.parametrize("depth", [2_000, 200_000])
@pytest.mark.parametrize("closed", [True, False])
async def test_what_is_nested_too_deep_is_answered(wire: Wire, depth: int, *, closed: bool) -> None:
    params = '{"a":' * depth + "1" + "}" * depth if closed else "[" * depth
    text = f'{{"type":"req","id":"deep","method":"health","params":{params}}}'
    await wire.socket.send(text)
    await wire.send(request("agents.list", id="after"))
    await wire.response("after")
    refused = [frame for frame in wire.frames if frame["type"] == "res" and not frame["ok"]]
    assert [row["error"]["message"] for row in refused] == [
        "invalid request frame: must NOT be nested this deep"
    ]


@pytest.mark.parametrize("junk", ["no json", "", b'{"type":"req"}', "[" * 200_000, '"\\ud800"'])
async def test_what_is_no_text_of_json_is_ignored(wire: Wire, junk: str | bytes) -> None:
    await wire.socket.send(junk)
    await wire.send(request("agents.list", id="after"))
    await wire.response("after")
    assert [frame["id"] for frame in wire.frames if frame["type"] == "res"][1:] in (
        ["after"],
        ["invalid", "after"],
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_a_number_that_json_cannot_hold_is_answered(wire: Wire, number: str) -> None:
    text = f'{{"type":"req","id":"lost","method":"health","params":{{"a":{number}}}}}'
    await wire.socket.send(text)
    answer = await wire.response("lost")
    message = "invalid request frame: has a number that JSON cannot hold"
    assert answer["error"] == {"code": "INVALID_REQUEST", "message": message}


async def test_half_a_surrogate_pair_reads_as_a_question_mark(rig: Rig, wire: Wire) -> None:
    params = {"sessionKey": "main", "message": "cut \ud83d", "idempotencyKey": "k"}
    await wire.call("chat.send", params)
    assert rig.dispatcher.submitted[0].text == "cut ?"


@pytest.mark.requirement("gateway-frame-schema-validation")
@pytest.mark.parametrize(
    ("frame", "echoed", "problem"),
    [
        ({"type": "req", "id": "7"}, "7", "must have required property 'method'"),
        ({"type": "req", "id": 7, "method": "health"}, 7, "at /id: must be string"),
        ({"type": "req", "method": "health"}, "invalid", "must have required property 'id'"),
        ({"type": "event", "id": "7", "method": "x"}, "7", "at /type: must be equal to constant"),
        (
            {"type": "req", "id": "7", "method": "health", "extra": 1},
            "7",
            "at root: unexpected property 'extra'",
        ),
        (
            {"type": "req", "id": "7", "method": ""},
            "7",
            "at /method: must NOT have fewer than 1 characters",
        ),
        ([], "invalid", "must be object"),
    ],
)
async def test_a_bad_frame_is_answered_and_the_connection_stays(
    wire: Wire, frame: object, echoed: object, problem: str
) -> None:
    await wire.send(frame)
    answer = await wire.response(echoed)
    assert answer["error"] == {
        "code": "INVALID_REQUEST",
        "message": f"invalid request frame: {problem}",
    }
    assert await wire.call("agents.list")


async def test_an_unknown_method_is_one_for_admins(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.write"]) as limited:
        error = (await limited.ask("no.such.method"))["error"]
    assert error == {
        "code": "FORBIDDEN",
        "message": "missing scope: operator.admin",
        "details": {
            "code": "MISSING_SCOPE",
            "missingScope": "operator.admin",
            "requiredScopes": ["operator.admin"],
        },
    }
    async with connected(rig.url, scopes=["operator.admin"]) as admin:
        error = (await admin.ask("no.such.method"))["error"]
    assert error["message"] == "unknown method: no.such.method"


async def test_a_second_connect_is_a_method_for_admins(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.read"]) as wire:
        assert (await wire.connect())["error"]["details"]["missingScope"] == "operator.admin"
        assert await wire.call("agents.list")


async def test_every_method_needs_a_scope(rig: Rig) -> None:
    async with connected(rig.url, scopes=[]) as wire:
        every = wire.hello["features"]["methods"]
        assert len(every) > 100
        needs = MethodTable().needs
        for method in every:
            error = (await wire.ask(method, {}))["error"]
            if needs[method].role is Role.NODE:
                assert error["message"] == "unauthorized role: operator"
            else:
                assert error["details"]["code"] == "MISSING_SCOPE", method


@pytest.mark.parametrize("method", ["agent", "agent.wait", "chat.send", "chat.abort"])
async def test_reading_starts_and_stops_nothing(rig: Rig, method: str) -> None:
    async with connected(rig.url, scopes=["operator.read"]) as wire:
        error = (await wire.ask(method, {}))["error"]
        assert error["details"]["missingScope"] == "operator.write"


@pytest.mark.requirement("gateway-frame-schema-validation")
async def test_parameters_are_checked_before_the_method_runs(rig: Rig, wire: Wire) -> None:
    error = (await wire.ask("agent", {"timeout": "soon", "foo": 1}))["error"]
    assert error == {
        "code": "INVALID_REQUEST",
        "message": "invalid agent params: must have required property 'message';"
        " must have required property 'idempotencyKey'; at /timeout: must be integer;"
        " at root: unexpected property 'foo'",
    }
    assert rig.dispatcher.submitted == []


@pytest.mark.parametrize("params", [[], "x", 5, True])
async def test_parameters_that_are_no_object_are_refused(wire: Wire, params: object) -> None:
    error = (await wire.ask("agent", params))["error"]
    assert error["message"] == "invalid agent params: must be object"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (BusyError("draining"), ("UNAVAILABLE", "request.busy", True)),
        (StoreFailedError("disk full"), ("UNAVAILABLE", "state.failed", True)),
        (UnconfiguredAgentError("x", ["main"]), ("INVALID_REQUEST", "request.unknown_agent", None)),
    ],
    ids=["busy", "state", "request"],
)
async def test_our_errors_keep_their_code_in_the_details(
    rig: Rig, wire: Wire, raised: Exception, expected: tuple[str, str, bool | None]
) -> None:
    rig.dispatcher.refuse = raised
    error = (await wire.ask("agent", {"message": "x", "idempotencyKey": "k"}))["error"]
    assert error["message"] == str(raised)
    assert (error["code"], error["details"]["code"], error.get("retryable")) == expected


async def test_an_unexpected_failure_is_told_without_its_text(
    rig: Rig, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    rig.dispatcher.refuse = RuntimeError("secret path /root/x")
    error = (await wire.ask("agent", {"message": "x", "idempotencyKey": "k"}))["error"]
    assert error == {
        "code": "UNAVAILABLE",
        "message": "internal error",
        "details": {"code": "internal"},
    }
    assert "method agent failed" in caplog.text
    assert await wire.call("agents.list")


async def test_a_frame_above_25_mib_closes_so_that_it_can_be_read(wire: Wire) -> None:
    await wire.socket.send("x" * (26 * 1024 * 1024))
    assert await wire.closed() == (1009, "")


async def test_a_frame_of_20_mib_is_read(wire: Wire) -> None:
    text = "x" * (20 * 1024 * 1024)
    error = (await wire.ask("agent", {"message": text, "idempotencyKey": "k"}))["error"]
    assert error["message"] == (
        "invalid agent params: at /message: must NOT have more than 1048576 characters"
    )


async def test_text_that_is_no_utf_8_closes(wire: Wire) -> None:
    await wire.socket.send(b"\xff\xfe", text=True)
    assert await wire.closed() == (1007, "")


async def test_bytes_that_are_no_websocket_frame_close(wire: Wire) -> None:
    wire.socket.transport.write(b"\x83\x80abcd")  # a reserved kind of frame
    assert await wire.closed() == (1002, "")


async def test_more_waiting_requests_than_allowed_are_refused(rig: Rig, wire: Wire) -> None:
    for number in range(MAX_IN_FLIGHT + 1):
        wait = {"runId": f"nobody-{number}", "timeoutMs": 600_000}
        await wire.send(request("agent.wait", wait, id=str(number)))
    error = (await wire.response(str(MAX_IN_FLIGHT)))["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert await wire.call("system-presence")
    assert rig.dispatcher.waiting == MAX_IN_FLIGHT


async def test_a_client_that_asks_and_leaves_at_once_leaves_nothing(rig: Rig) -> None:
    for _ in range(20):
        async with connected(rig.url) as wire:
            await wire.send(request("agent.wait", {"runId": "nobody"}))
            wire.socket.transport.abort()
    async with connected(rig.url) as wire:
        assert len(await wire.call("system-presence")) == 2
    assert rig.dispatcher.waiting == 0


async def test_ten_thousand_malformed_frames_leave_it_serving(rig: Rig) -> None:
    chosen = random.Random(7)  # noqa: S311 - reproducible data, not a secret
    whole = json.dumps(request("agent", {"message": "hi", "idempotencyKey": "k"}))
    async with connected(rig.url) as wire:
        for _ in range(10_000):
            cut = chosen.randrange(len(whole) - 1)  # whatever follows, it is no request
            frame = whole[:cut] + chosen.choice(['"', "{", "}", "\0", "é", "1e999", "[[", ""])
            await wire.socket.send(frame)
        await wire.send(request("agents.list", id="still here"))
        assert (await wire.response("still here"))["ok"]
    assert rig.dispatcher.submitted == []
