"""Edits of the configuration file while the gateway runs: effective and pending changes, events."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.infra.atomic import write_atomic
from skerry.testing.gateway import model_config, running_gateway
from skerry.testing.model_server import StubModelServer
from skerry.testing.ports import reserved

READ = ("operator.read",)


def edit(path: Path, **sections: Any) -> None:
    """Writes sections into the file, as an editor does: a new file in the old one's place."""
    tree = json.loads(path.read_text("utf-8"))
    write_atomic(path, json.dumps(tree | sections).encode())


@asynccontextmanager
async def next_change(client: GatewayClient) -> AsyncIterator[dict[str, Any]]:
    """Yields the fields of the next `config.changed`; they are filled at the end of the block."""
    payload: dict[str, Any] = {}
    with client.subscribe() as stream:
        yield payload
        with anyio.fail_after(60):
            async for event in stream:
                if event.event == "config.changed":
                    assert isinstance(event.payload, dict)
                    payload |= event.payload
                    return


async def reply(address: GatewayAddress, run_id: str) -> dict[str, Any]:
    """Returns the answer to a message."""
    params = {"message": "hello", "sessionKey": "main", "idempotencyKey": run_id}
    async with GatewayClient(address) as client:
        payload: dict[str, Any] = await client.request("agent", params, expect_final=True)
    return payload


async def test_an_edit_holds_from_the_next_message_on_and_a_broken_one_never(
    tmp_path: Path,
) -> None:
    async with (
        StubModelServer(["one"]) as first,
        StubModelServer(["two", "three"]) as second,
        running_gateway(home=tmp_path, model=first.base_url) as gateway,
        GatewayClient(gateway.address, scopes=READ) as client,
    ):
        file, address = tmp_path / "skerry.json", gateway.address
        await reply(address, "a")
        assert (len(first.requests), len(second.requests)) == (1, 0)
        async with next_change(client) as news:
            edit(file, **model_config(second.base_url))
        assert news["valid"]
        assert news["changedPaths"] == ["models.providers.test.baseUrl"]
        assert news["restart"] == "none"
        await reply(address, "b")
        assert (len(first.requests), len(second.requests)) == (1, 1)
        good = file.read_bytes()
        async with next_change(client) as news:
            write_atomic(file, good[:-5])
        assert not news["valid"]
        assert "line 1" in news["message"]
        await reply(address, "c")
        assert (len(first.requests), len(second.requests)) == (1, 2)
        health = await client.request("health")
        status = await client.request("status")
        for payload in (health, status):
            assert payload["configuration"]["state"] == "last-good"
            assert news["message"] == payload["configuration"]["message"]
        async with next_change(client) as news:
            mended = json.loads(good) | {"messages": {"queue": {"mode": "followup"}}}
            write_atomic(file, json.dumps(mended).encode())
        assert news["changedPaths"] == ["messages.queue.mode"]
        assert (await client.request("status"))["configuration"] == {"state": "ok"}


async def test_what_needs_a_restart_is_said_where_none_is_made(tmp_path: Path) -> None:
    config = {"gateway": {"reload": {"mode": "hot", "debounceMs": 10}}}
    async with (
        running_gateway(home=tmp_path, config=config) as gateway,
        GatewayClient(gateway.address, scopes=READ) as client,
    ):
        file = tmp_path / "skerry.json"
        async with next_change(client) as news:
            edit(file, hooks={"internal": {"enabled": False}})
        assert news["restart"] == "needed"
        assert news["restartPaths"] == ["hooks.internal.enabled"]
        status = await client.request("status")
        assert status["configuration"]["restartPaths"] == ["hooks.internal.enabled"]
        async with next_change(client) as news:  # taken back: nothing waits any more
            tree = json.loads(file.read_text("utf-8"))
            del tree["hooks"]
            write_atomic(file, json.dumps(tree).encode())
        assert news["restart"] == "none"


async def test_a_write_over_the_wire_is_told_once(tmp_path: Path) -> None:
    config = {"gateway": {"reload": {"debounceMs": 0}}}
    async with (
        running_gateway(home=tmp_path, config=config) as gateway,
        GatewayClient(gateway.address, scopes=("operator.admin", *READ)) as client,
    ):
        before = await client.request("config.get")
        async with next_change(client) as news:
            raw = json.dumps({"messages": {"queue": {"mode": "followup"}}})
            await client.request("config.patch", {"raw": raw, "baseHash": before["hash"]})
        assert news["changedPaths"] == ["messages.queue.mode"]
        async with next_change(client) as news:  # the next that is told is the next change
            edit(tmp_path / "skerry.json", cron={"maxConcurrentRuns": 2})
        assert news["changedPaths"] == ["cron.maxConcurrentRuns"]


async def test_the_gateway_restarts_in_its_process_when_a_change_needs_it(
    tmp_path: Path,
) -> None:
    token = "5eed" * 12
    file = tmp_path / "skerry.json"
    with reserved() as port:
        gateway: dict[str, Any] = {"port": port, "auth": {"token": token}}
        async with StubModelServer(["one"]) as model:
            tree = model_config(model.base_url) | {"gateway": gateway}
            write_atomic(file, json.dumps(tree).encode())
            environ = {**os.environ, "SKERRY_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}
            command = [sys.executable, "-m", "skerry", "gateway", "run"]
            async with await anyio.open_process(command, env=environ, stderr=None) as process:
                address = GatewayAddress(f"ws://127.0.0.1:{port}", token)
                with anyio.fail_after(60):
                    before = await started(address)
                    gateway["tickIntervalMs"] = 20_000
                    write_atomic(file, json.dumps(tree).encode())
                    while (after := await started(address)) == before:  # noqa: ASYNC110 - its process
                        await anyio.sleep(0.05)
                assert after["tick"] == 20_000
                assert process.returncode is None
                process.terminate()
                with anyio.fail_after(60):
                    assert await process.wait() == 0


async def started(address: GatewayAddress) -> dict[str, Any]:
    """Returns the health of a gateway once it answers."""
    while True:
        try:
            async with GatewayClient(address, scopes=READ) as client:
                return {"tick": client.hello["policy"]["tickIntervalMs"]}
        except Exception:  # noqa: BLE001 - it is on its way down or up
            await anyio.sleep(0.05)
