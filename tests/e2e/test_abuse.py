"""Attempts of a hostile program on this machine: they must not affect others or use up memory."""

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from skerry.infra.atomic import write_atomic
from skerry.testing.gateway import GatewayProcess, model_config, running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.wire import UPGRADE, Wire, connect_params, connected, dial, request

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayProcess]:
    async with running_gateway() as gateway:
        yield gateway


def memory(gateway: GatewayProcess) -> int:
    """Returns the bytes that the gateway's process has in memory."""
    pages = int(Path(f"/proc/{gateway.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


async def answers(gateway: GatewayProcess) -> None:
    """Makes sure that somebody with the token is let in and answered."""
    address = gateway.address
    async with connected(address.url, auth={"token": address.token}) as wire:
        await wire.call("health")


async def test_silent_connections_keep_nobody_out(gateway: GatewayProcess) -> None:
    port = int(gateway.url.rpartition(":")[2])
    upgrade = f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{UPGRADE}\r\n".encode()
    async with dial(gateway.address.url) as first:
        # All at once: none may wait so long that it is closed for that.
        silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(300)]
        try:
            for one in silent:
                one.sendall(upgrade)
            await answers(gateway)
            assert await first.closed() == (1013, "too many handshakes")
        finally:
            for one in silent:
                one.close()


async def test_sockets_that_ask_nothing_keep_nobody_out(gateway: GatewayProcess) -> None:
    port = int(gateway.url.rpartition(":")[2])
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(700)]
    try:
        for one in sockets[::2]:
            one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        await answers(gateway)
    finally:
        for one in sockets:
            one.close()


async def guess(url: str, token: str) -> None:
    async with dial(url) as wire:
        await wire.send(request("connect", connect_params(auth={"token": token}), id="guess"))


async def test_wrong_tokens_keep_nobody_out_and_leave_nothing(gateway: GatewayProcess) -> None:
    async def guess_many(first: int) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(first, first + 100):
                tasks.start_soon(guess, gateway.address.url, f"wrong-{number}")

    for first in range(0, 1_000, 100):
        await guess_many(first)
    before = memory(gateway)
    for first in range(1_000, 3_000, 100):
        await guess_many(first)
    await answers(gateway)
    assert memory(gateway) - before < 16 * MEBIBYTE


async def settled(wire: Wire, prefix: str, count: int) -> tuple[int, int]:
    """Returns the number of successful requests, and of requests refused by the rate limit."""
    done = refused = 0
    while done + refused < count:
        frame = await wire.receive()
        if frame["type"] == "res" and frame["id"].startswith(prefix):
            if frame["ok"]:
                done += 1
            else:
                assert frame["error"]["details"]["code"] == "request.busy"
                assert frame["error"]["retryable"]
                refused += 1
    return done, refused


async def test_a_flood_of_requests_is_bounded_and_each_is_answered(gateway: GatewayProcess) -> None:
    address = gateway.address
    async with connected(address.url, auth={"token": address.token}) as wire:
        for number in range(2_000):
            message = {"sessionKey": "flood", "message": "m" * 100, "idempotencyKey": f"k{number}"}
            await wire.send(request("chat.send", message, id=f"send{number}"))
        sent, refused = await settled(wire, "send", 2_000)
        assert sent > 0
        for number in range(500):
            history = {"sessionKey": "flood", "limit": 1000}
            await wire.send(request("chat.history", history, id=f"read{number}"))
        await settled(wire, "read", 500)
        await answers(gateway)
    assert sent + refused == 2_000
    assert memory(gateway) < 250 * MEBIBYTE


KEY = "canary-of-a-key-0123456789"


async def test_a_providers_key_is_told_to_nobody_but_the_provider(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with StubModelServer() as model:
        config = model_config(model.base_url)
        config["models"]["providers"]["test"]["apiKey"] = KEY
        async with running_gateway(model=model.base_url, home=tmp_path) as gateway:
            await gateway.stop()
            whole = config | {"gateway": {"auth": {"token": gateway.token}}}
            write_atomic(tmp_path / "skerry.json", msgspec.json.encode(whole))
            await gateway.start()
            address = gateway.address
            async with connected(address.url, auth={"token": address.token}) as wire:
                message = {"message": "hi", "idempotencyKey": "k"}
                await wire.send(request("agent", message, id="run"))
                await wire.until(lambda frame: "result" in (frame.get("payload") or {}))
                for method in ("config.get", "status", "health", "models.list", "sessions.list"):
                    await wire.call(method)
            titles = Path(f"/proc/{gateway.pid}/cmdline").read_bytes()
            await gateway.stop()
    assert model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    holding = {file for file in files if KEY.encode() in file.read_bytes()}
    assert {path.name for path in holding} == {"skerry.json", "skerry.json.last-good"}
    assert {path.stat().st_mode & 0o777 for path in holding} == {0o600}
    assert KEY not in f"{wire.frames}{titles!r}{capfd.readouterr()}"
