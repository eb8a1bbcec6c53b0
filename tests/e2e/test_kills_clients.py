"""`kill -9` under WebSocket callers: sent answers stay true, and a key runs once."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError, GatewayUnreachableError
from tests.support.chaos import rig
from tests.support.wire import connected, request

Answer = dict[str, Any]


def ask(text: str, key: str) -> dict[str, str]:
    return {"sessionKey": "main", "message": text, "idempotencyKey": key}


async def result(client: GatewayClient, key: str, text: str) -> Answer:
    """Returns the result of the run of the text."""
    waited = await client.request("agent.wait", {"runId": key, "timeoutMs": 60_000}, timeout=90)
    assert waited["status"] == "ok", waited
    return await run(client, text, key)


async def history(client: GatewayClient) -> list[Answer]:
    messages: list[Answer] = (await client.request("chat.history", {"sessionKey": "main"}))[
        "messages"
    ]
    return messages


async def run(client: GatewayClient, text: str, key: str) -> Answer:
    """Runs to the end."""
    final: Answer = await client.request("agent", ask(text, key), expect_final=True)
    return final


async def test_an_accepted_run_is_there_after_a_kill_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as (gateway, _, _):
        for key in ("k1", "k2"):
            async with GatewayClient(gateway.address) as client:
                answer = await client.request("agent", ask(key, key))
                os.kill(gateway.pid, signal.SIGKILL)
                assert answer["status"] == "accepted"
            await gateway.wait()
            await gateway.start()
        async with GatewayClient(gateway.address) as client:
            for key in ("k1", "k2"):
                stored = await result(client, key, key)
                assert stored["result"]["payloads"][0]["text"] == f"answer to {key}"
            assert [row["role"] for row in await history(client)] == ["user", "assistant"] * 2


async def test_a_started_message_is_there_after_a_kill_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as (gateway, _, _):
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            answer = await wire.call("chat.send", ask("m1", "k1"))
            os.kill(gateway.pid, signal.SIGKILL)
            assert answer["status"] == "started"
        await gateway.wait()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            stored = await result(client, "k1", "m1")
            assert stored["result"]["payloads"][0]["text"] == "answer to m1"


async def test_nobody_is_told_accepted_before_the_commit(tmp_path: Path) -> None:
    async with rig(tmp_path, "--hold", "store.before-commit:1") as (gateway, _, model):
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            await wire.send(request("agent", ask("m1", "k1"), id="run"))
            await wire.ask("health")  # answered behind it; what was said at once stands before it
            await wire.ask("health")
            assert [frame for frame in wire.frames if frame.get("id") == "run"] == []
        await gateway.kill()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            unknown = await client.request("agent.wait", {"runId": "k1", "timeoutMs": 0})
            assert unknown["status"] == "timeout"
            assert model.count == 0
            await run(client, "m1", "k1")  # so it can safely be sent again
        assert model.count == 1


@pytest.mark.requirement("wire-idempotency-required")
async def test_a_key_runs_once_back_to_back_and_after_a_restart(tmp_path: Path) -> None:
    async with rig(tmp_path) as (gateway, _, model):
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            for name in ("one", "two"):
                await wire.send(request("agent", ask("m1", "k1"), id=name))
            first, second = await wire.response("one"), await wire.response("two")
            assert first["payload"]["status"] == "accepted"
            assert second["payload"]["status"] == "in_flight"
            final = await wire.response("one")
        await gateway.kill()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            assert await run(client, "m1", "k1") == final["payload"]
            repeated = await client.request("chat.send", ask("m1", "k1"))
            assert repeated["status"] == "ok"
            assert len(await history(client)) == 2
        assert model.count == 1


async def test_an_interrupted_run_says_so_and_can_be_asked_again(tmp_path: Path) -> None:
    async with rig(tmp_path, "--fault", "store.after-commit:2") as (gateway, _, _):
        async with GatewayClient(gateway.address) as client:
            with pytest.raises(GatewayUnreachableError):
                await run(client, "write m1", "k1")
        await gateway.wait()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            with pytest.raises(GatewayRefusedError, match="interrupted") as refused:
                await run(client, "write m1", "k1")
            assert refused.value.details_code == "run.interrupted"
            *_, tool, last = await history(client)
            assert (tool["role"], tool["isError"]) == ("toolResult", True)
            assert (last["role"], last["stopReason"]) == ("assistant", "aborted")
            assert "/retry runs your message again" in last["errorMessage"]
            retried = await run(client, "write m1", "k2")
            assert retried["result"]["payloads"][-1]["text"] == "answer to m1"


async def test_what_waited_runs_in_order_after_a_kill(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(5)]
    async with rig(tmp_path) as (gateway, _, _):
        async with connected(gateway.address.url, auth={"token": gateway.token}) as wire:
            for key in keys:
                await wire.send(request("chat.send", ask(key, key), id=key))
            for key in keys:
                assert (await wire.response(key))["payload"]["status"] == "started"
            os.kill(gateway.pid, signal.SIGKILL)
        await gateway.wait()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            for key in keys:
                await result(client, key, key)
            texts = [row["content"][0]["text"] for row in await history(client)]
        assert texts == [text for key in keys for text in (key, f"answer to {key}")]


async def test_a_kill_in_the_recovery_leaves_the_run_to_the_next_start(tmp_path: Path) -> None:
    async with rig(tmp_path, "--fault", "dispatch.accepted:1") as (gateway, _, _):
        async with GatewayClient(gateway.address) as client:
            with pytest.raises(GatewayUnreachableError):
                await run(client, "m1", "k1")
        await gateway.wait()
        with pytest.raises(AssertionError, match="before it was ready"):
            await gateway.start("--fault", "store.after-commit:1")  # the recovery's own COMMIT
        await gateway.end()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            with anyio.fail_after(60):
                stored = await result(client, "k1", "m1")
        assert stored["result"]["payloads"][0]["text"] == "answer to m1"
