"""Nodes: machines that connect to carry out commands."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skerry.gateway.dispatch import MethodTable
from skerry.policy import access
from skerry.policy.access import Role
from skerry.store import Unit
from tests.support.device import REMOTE, Device
from tests.support.gateway import Rig
from tests.support.wire import Wire, connected, dial

CLIENT = {"id": "node-host", "version": "2", "platform": "linux", "mode": "node"}
NODE: dict[str, Any] = {
    "role": "node",
    "scopes": None,
    "client": CLIENT,
    "caps": ["canvas"],
    "commands": ["canvas.snapshot", "system.run"],
}


@asynccontextmanager
async def node(rig: Rig, device: Device) -> AsyncIterator[Wire]:
    async with device.connected(rig.url, **NODE) as wire:
        yield wire


def ask(device: Device, **changes: Any) -> dict[str, Any]:
    return {
        "nodeId": device.id,
        "command": "canvas.snapshot",
        "idempotencyKey": "k1",
    } | changes


@pytest.mark.requirement("nodes-connect-role")
async def test_a_node_connects_and_is_listed(rig: Rig) -> None:
    device = Device()
    async with connected(rig.url, scopes=["operator.read"]) as wire:
        assert (await wire.call("node.list"))["nodes"] == []
        async with node(rig, device) as its:
            assert its.hello["auth"]["role"] == "node"
            assert its.hello["auth"]["scopes"] == []
            assert its.hello["snapshot"]["presence"] == []
            (payload,) = (await wire.call("node.list"))["nodes"]
            described = await wire.call("node.describe", {"nodeId": device.id})
        for row in (payload, described):
            assert row["nodeId"] == device.id
            assert (row["connected"], row["paired"]) == (True, True)
            assert row["commands"] == NODE["commands"]
            assert row["platform"] == "linux"
        await wire.event("presence")
        (payload,) = (await wire.call("node.list"))["nodes"]
        assert (payload["connected"], payload["paired"]) == (False, True)


async def test_a_node_needs_a_device(rig: Rig) -> None:
    async with dial(rig.url) as wire:
        error = (await wire.connect(role="node"))["error"]
    assert error["details"] == {"code": "DEVICE_IDENTITY_REQUIRED"}


async def test_elsewhere_a_node_waits_and_those_who_pair_are_told(rig: Rig) -> None:
    device = Device()
    async with connected(rig.url) as admin:
        error = await device.refused(rig.url, REMOTE, **NODE)
        payload = (await admin.event("node.pair.requested"))["payload"]
        assert (payload["nodeId"], payload["role"]) == (device.id, "node")
        (waiting,) = (await admin.call("node.pair.list"))["pending"]
        assert waiting["requestId"] == error["details"]["requestId"]
        await admin.call("node.pair.approve", {"requestId": waiting["requestId"]})
        assert admin.seen("node.pair.resolved")["decision"] == "approved"
        (known,) = (await admin.call("node.pair.list"))["paired"]
        assert known["nodeId"] == device.id
        async with device.connected(rig.url, REMOTE, **NODE) as live:
            await admin.call("node.pair.remove", {"nodeId": device.id})
            assert await live.closed() == (1008, "device removed")


async def test_an_operator_that_becomes_a_node_is_approved_again(rig: Rig) -> None:
    device = Device()
    async with device.connected(rig.url):
        pass
    error = await device.refused(rig.url, REMOTE, **NODE)
    assert error["details"]["reason"] == "role-upgrade"
    error = await device.refused(rig.url, **NODE | {"auth": {"deviceToken": device.token}})
    assert error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_a_node_may_call_what_nodes_may_and_nothing_else(rig: Rig) -> None:
    async with node(rig, Device()) as wire:
        needs = MethodTable().needs
        for name in [*needs, "no.such.method"]:
            need = needs.get(name, access.UNLISTED)
            message = (await wire.ask(name, {"bogus": 1})).get("error", {}).get("message", "")
            refused = message == "unauthorized role: node"
            assert refused is (need.role not in {None, Role.NODE}), name
        assert await wire.call("skills.bins") == {"bins": []}


async def test_a_node_receives_only_events_for_nodes(rig: Rig) -> None:
    async with node(rig, Device()) as wire:
        for name in access.EVENTS:
            if name != "connect.challenge":
                rig.context.broadcast.send(name, {"name": name})
        await wire.call("skills.bins")
        heard = {frame["event"] for frame in wire.frames[1:] if frame["type"] == "event"}
    needs = access.EVENTS.items()
    everyone = {name for name, need in needs if need.role in {None, Role.NODE}}
    assert heard == everyone - {"connect.challenge"}


@pytest.mark.requirement("nodes-device-commands")
async def test_a_node_carries_out_a_command(rig: Rig) -> None:
    device = Device()
    async with node(rig, device) as its, connected(rig.url, scopes=["operator.write"]) as wire:
        await wire.send(
            {
                "type": "req",
                "id": "i",
                "method": "node.invoke",
                "params": ask(device, params={"x": 1}, timeoutMs=9_000),
            }
        )
        payload = (await its.event("node.invoke.request"))["payload"]
        assert payload == {
            "id": payload["id"],
            "nodeId": device.id,
            "command": "canvas.snapshot",
            "timeoutMs": 9_000,
            "idempotencyKey": "k1",
            "paramsJSON": '{"x":1}',
        }
        done = {"id": payload["id"], "nodeId": device.id, "ok": True, "payloadJSON": '{"png":"…"}'}
        assert await its.call("node.invoke.result", done) == {"ok": True}
        answer = await wire.response("i")
        late = await its.call("node.invoke.result", done)
    assert answer["payload"] == {
        "ok": True,
        "nodeId": device.id,
        "command": "canvas.snapshot",
        "payload": {"png": "…"},
        "payloadJSON": '{"png":"…"}',
    }
    assert late == {"ok": True, "ignored": True}


async def test_the_same_key_does_nothing_twice(rig: Rig) -> None:
    device = Device()
    async with node(rig, device) as its, connected(rig.url) as wire:
        for number in ("a", "b"):
            await wire.send(
                {"type": "req", "id": number, "method": "node.invoke", "params": ask(device)}
            )
        payload = (await its.event("node.invoke.request"))["payload"]
        await wire.call("health")
        await its.call("node.invoke.result", {"id": payload["id"], "nodeId": device.id, "ok": True})
        answers = [await wire.until(lambda frame: frame["type"] == "res") for _ in range(2)]
        requests = [frame for frame in its.frames if frame.get("event") == "node.invoke.request"]
    assert {answer["id"] for answer in answers} == {"a", "b"}
    assert all(answer["ok"] for answer in answers)
    assert len(requests) == 1


async def test_a_repeat_that_arrives_while_the_answer_is_stored_runs_nothing_again(
    rig: Rig,
) -> None:
    device = Device()
    begun, allowed = threading.Event(), threading.Event()

    def holds_the_writer(_: Unit) -> None:
        begun.set()
        assert allowed.wait(60)

    async with (
        node(rig, device) as its,
        connected(rig.url) as wire,
        anyio.create_task_group() as tasks,
    ):
        request = {"type": "req", "method": "node.invoke", "params": ask(device)}
        await wire.send({**request, "id": "a"})
        payload = (await its.event("node.invoke.request"))["payload"]
        tasks.start_soon(rig.store.write, holds_the_writer)
        assert await anyio.to_thread.run_sync(begun.wait, 60)
        await its.call("node.invoke.result", {"id": payload["id"], "nodeId": device.id, "ok": True})
        await wire.send({**request, "id": "b"})
        await wire.call("health")
        allowed.set()
        answers = [await wire.until(lambda frame: frame["type"] == "res") for _ in range(2)]
        await its.call("node.invoke.result", {"id": "none", "nodeId": device.id, "ok": True})
        requests = [frame for frame in its.frames if frame.get("event") == "node.invoke.request"]
    assert [answer["ok"] for answer in answers] == [True, True]
    assert len(requests) == 1


async def test_what_a_node_could_not_do_is_told(rig: Rig) -> None:
    device = Device()
    async with node(rig, device) as its, connected(rig.url) as wire:
        await wire.send({"type": "req", "id": "i", "method": "node.invoke", "params": ask(device)})
        payload = (await its.event("node.invoke.request"))["payload"]
        error = {"code": "NO_CAMERA", "message": "no camera here"}
        done = {"id": payload["id"], "nodeId": device.id, "ok": False, "error": error}
        await its.call("node.invoke.result", done)
        answer = (await wire.response("i"))["error"]
    assert (answer["code"], answer["message"]) == ("UNAVAILABLE", "no camera here")
    assert answer["details"] == {"nodeError": error}


async def test_a_node_that_does_not_answer_is_not_waited_for_longer_than_asked(rig: Rig) -> None:
    device = Device()
    async with node(rig, device), connected(rig.url) as wire:
        error = (await wire.ask("node.invoke", ask(device, timeoutMs=1)))["error"]
    assert error["details"] == {"code": "TIMEOUT"}


async def test_a_node_that_leaves_ends_what_it_was_at(rig: Rig) -> None:
    device = Device()
    async with connected(rig.url) as wire:
        async with node(rig, device) as its:
            await wire.send(
                {"type": "req", "id": "i", "method": "node.invoke", "params": ask(device)}
            )
            await its.event("node.invoke.request")
        error = (await wire.response("i"))["error"]
    assert error["details"] == {"code": "PAIRING_CHANGED"}


async def test_a_newer_connection_of_a_node_takes_over(rig: Rig) -> None:
    device = Device()
    async with node(rig, device) as old, node(rig, device) as new:
        assert await old.closed() == (1008, "replaced by a newer connection")
        async with connected(rig.url) as wire, anyio.create_task_group() as tasks:
            tasks.start_soon(wire.ask, "node.invoke", ask(device, timeoutMs=1))
            await new.event("node.invoke.request")


@pytest.mark.parametrize(
    ("protocol", "error"),
    [
        (
            3,
            {
                "code": "UNAVAILABLE",
                "message": "node not connected",
                "details": {"code": "NOT_CONNECTED"},
            },
        ),
        (
            4,
            {
                "code": "UNAVAILABLE",
                "message": "node pairing changed while invocation was active",
                "retryable": True,
                "details": {"code": "PAIRING_CHANGED"},
            },
        ),
    ],
)
async def test_an_unknown_node_is_answered_as_captured(
    rig: Rig, protocol: int, error: dict[str, Any]
) -> None:
    bounds = {"minProtocol": protocol, "maxProtocol": protocol}
    async with connected(rig.url, **bounds) as wire:
        params = {"nodeId": "x", "command": "canvas.x", "idempotencyKey": "z"}
        assert (await wire.ask("node.invoke", params))["error"] == error
        described = await wire.ask("node.describe", {"nodeId": "x"})
        assert described["error"] == {"code": "INVALID_REQUEST", "message": "unknown nodeId"}
        bins = await wire.ask("skills.bins")
        assert bins["error"] == {
            "code": "INVALID_REQUEST",
            "message": "unauthorized role: operator",
        }


async def test_only_what_the_node_offers_can_be_asked_and_programs_only_by_admins(
    rig: Rig,
) -> None:
    device = Device()
    async with node(rig, device), connected(rig.url, scopes=["operator.write"]) as wire:
        error = (await wire.ask("node.invoke", ask(device, command="camera.snap")))["error"]
        assert error["message"].startswith("node command not allowed")
        error = (await wire.ask("node.invoke", ask(device, command="system.run")))["error"]
        assert error["message"] == "missing scope: operator.admin"


async def test_a_node_tells_what_it_has(rig: Rig) -> None:
    device = Device()
    async with node(rig, device) as its, connected(rig.url) as wire:
        skill = {"name": "s", "description": "d", "content": "c"}
        await its.call("node.skills.update", {"skills": [skill]})
        await its.call("node.pluginTools.update", {"tools": []})
        await its.call("node.runnerInventory.update", {"runners": [], "anything": 1})
        (row,) = (await wire.call("node.list"))["nodes"]
        assert row["skills"] == {"skills": [skill]}
        assert row["pluginTools"] == {"tools": []}
        assert row["runnerInventory"] == {"runners": [], "anything": 1}
        big = {"skills": [skill | {"content": "x" * 300_000}]}
        refused = await its.ask("node.skills.update", big)
        assert "the limit is 262144" in refused["error"]["message"]
        answer = await its.call("node.event", {"event": "exec.finished", "payload": {}})
    assert answer == {
        "ok": True,
        "event": "exec.finished",
        "handled": False,
        "reason": "unsupported_event",
    }
