"""The tool `exec` on a node: a machine that connects and runs `system.run`, here a scripted one."""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.discover import GatewayAddress
from skerry.hooks.hooks import Hooks
from tests.e2e.test_approvals import begin, final
from tests.e2e.test_exec import call
from tests.support.device import Device
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

NODE: dict[str, Any] = {"tools": {"exec": {"host": "node"}}}
ABOUT: dict[str, Any] = {
    "role": "node",
    "scopes": None,
    "client": {"id": "node-host", "version": "2", "platform": "linux", "mode": "node"},
    "commands": ["system.run"],
}


@asynccontextmanager
async def gateway(home: Path, config: Any) -> AsyncIterator[tuple[Wire, GatewayAddress]]:
    async with (
        whole_gateway(home, Hooks(), config=config) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        yield wire, address


@asynccontextmanager
async def node(address: GatewayAddress, device: Device) -> AsyncIterator[Wire]:
    async with device.connected(address.url, auth={"token": address.token}, **ABOUT) as wire:
        yield wire


async def next_command(wire: Wire) -> dict[str, Any]:
    """Returns the parameters of the next command, with the id of its request."""
    request = (await wire.event("node.invoke.request"))["payload"]
    return {**json.loads(request["paramsJSON"]), "id": request["id"]}


async def answer(wire: Wire, device: Device, request: dict[str, Any]) -> None:
    """Runs the command as a node would, and answers."""
    completed = await anyio.to_thread.run_sync(
        lambda: subprocess.run(request["command"], capture_output=True, check=False, text=True)
    )
    payload = {
        "exitCode": completed.returncode,
        "stdout": completed.stdout,
        "stderr": completed.stderr,
    }
    params = {"id": request["id"], "nodeId": device.id, "ok": True, "payload": payload}
    await wire.call("node.invoke.result", params)


@pytest.mark.requirement("exec-host-node")
async def test_a_command_runs_on_the_node_when_a_person_approves_it(tmp_path: Path) -> None:
    device = Device()
    async with (
        gateway(tmp_path / "home", NODE) as (wire, address),
        node(address, device) as machine,
    ):
        await begin(wire, call("echo here; exit 3", workdir="/srv"))
        request = (await wire.event("exec.approval.requested"))["payload"]
        facts = request["request"]
        assert (facts["host"], facts["cwd"], facts["allowAlways"]) == ("node", "/srv", False)
        assert f"it runs on the node {device.id[:12]}" in facts["reason"]
        await wire.call("exec.approval.resolve", {"id": request["id"], "decision": "allow-once"})
        command = await next_command(machine)
        assert (command["rawCommand"], command["cwd"]) == ("echo here; exit 3", "/srv")
        assert (command["approved"], command["agentId"]) == (True, "main")
        await answer(machine, device, command)
        text = await final(wire)
        assert "here" in text
        assert "exited with code 3" in text
        taint = await wire.call("sessions.taint", {"key": "main"})
        assert taint["origins"] == ["web"]


async def test_a_command_of_the_allowlist_runs_unasked(tmp_path: Path) -> None:
    device = Device()
    exec_ = {"host": "node", "allowlist": ["echo *"], "ask": "off"}
    config = {"tools": {"exec": exec_}}
    async with (
        gateway(tmp_path / "home", config) as (wire, address),
        node(address, device) as machine,
    ):
        await begin(wire, call("echo a"), "r1")
        command = await next_command(machine)
        assert "approved" not in command
        await answer(machine, device, command)
        assert "\\na\\n</untrusted-result" in await final(wire, runId="r1")
        await begin(wire, call("rm -r x"), "r2")
        assert "denied by the rule allowlist-miss" in await final(wire, runId="r2")
        await begin(wire, call("echo a", pty=True), "r3")
        assert "denied by the rule exec-node" in await final(wire, runId="r3")
        await begin(wire, call("echo a", host="gateway"), "r4")
        assert "denied by the rule" in await final(wire, runId="r4")


async def test_a_node_that_goes_away_leaves_an_unknown_outcome(tmp_path: Path) -> None:
    config = {"tools": {"exec": {"host": "node", "security": "full", "ask": "off"}}}
    device = Device()
    async with gateway(tmp_path / "home", config) as (wire, address):
        async with node(address, device) as machine:
            await begin(wire, call("sleep 1"), "r1")
            await next_command(machine)
        text = await final(wire, runId="r1")
        assert "disconnected after it received the command" in text
        assert "outcome is" in text
        await begin(wire, call("sleep 1"), "r2")
        assert "No node that runs commands is connected" in await final(wire, runId="r2")


@pytest.mark.parametrize("expected", [None, "other"])
async def test_an_approval_is_for_one_node(tmp_path: Path, expected: str | None) -> None:
    exec_ = {"host": "node", **({"node": expected} if expected else {})}
    first, second = Device(), Device()
    async with gateway(tmp_path / "home", {"tools": {"exec": exec_}}) as (wire, address):
        async with node(address, first):
            await begin(wire, call("echo a"))
            if expected:
                assert "The node 'other' is not connected" in await final(wire)
                return
            request = (await wire.event("exec.approval.requested"))["payload"]
        async with node(address, second) as machine:
            params = {"id": request["id"], "decision": "allow-once"}
            await wire.call("exec.approval.resolve", params)
            assert "denied by the rule approval-changed" in await final(wire)
            events = [frame.get("event") for frame in machine.frames]
            assert "node.invoke.request" not in events
