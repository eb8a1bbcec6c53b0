"""A gateway from the opening of its socket: its address, and its answers during the start."""

import signal
import threading
from pathlib import Path

import anyio
import pytest

from skerry.app.build import Outside
from skerry.app.serve import AddressRefusedError, serve
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.gateway import LOCK
from skerry.config.load import prepare
from skerry.infra.lock import owner
from skerry.model.errors import ConfigError
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels, echo
from tests.support.core import open_core, request
from tests.support.wire import dial


async def ask(port: int, path: str) -> tuple[int, bytes]:
    """Returns status and body of the answer."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
        await stream.send(head.encode())
        raw = b"".join([part async for part in stream])
    return int(raw.split()[1]), raw.partition(b"\r\n\r\n")[2]


@pytest.fixture
async def state(tmp_path: Path) -> Path:
    """A state directory with a run that a start must take up, which needs a COMMIT."""
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
    return tmp_path


@pytest.mark.requirement("gateway-default-address")
async def test_it_listens_on_the_loopback_address_and_no_other() -> None:
    async with running_gateway() as gateway:
        port = int(gateway.url.rpartition(":")[2])
        assert (await ask(port, "/healthz"))[0] == 200
        with pytest.raises(OSError, match=r"127\.0\.0\.2|attempts failed"):
            await anyio.connect_tcp("127.0.0.2", port)


async def test_while_it_starts_it_is_alive_and_not_ready(state: Path) -> None:
    committed = threading.Event()
    environ = {"HOME": str(state), "SKERRY_STATE_DIR": str(state), "SKERRY_GATEWAY_PORT": "0"}

    def reach(point: str) -> None:
        if point == "store.before-commit":
            committed.wait(60)

    outside = Outside(models=ScriptedModels(ScriptedModel(echo)), reach=reach)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, prepare(environ), environ, outside)
            while (found := owner(state / LOCK)) is None or not found.note:  # noqa: ASYNC110 - a file
                await anyio.sleep(0.01)
            port = int(found.note)
            assert await ask(port, "/readyz") == (
                503,
                b'{"ready":false,"failing":["starting"],"uptimeMs":0}',
            )
            assert (await ask(port, "/"))[0] == 503
            assert await ask(port, "/healthz") == (200, b'{"ok":true,"status":"live"}')
            async with await anyio.connect_tcp("127.0.0.1", port) as silent:
                committed.set()
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await silent.receive()
            while (await ask(port, "/readyz"))[0] != 200:
                pass
            signal.raise_signal(signal.SIGTERM)


async def test_an_address_of_its_own_is_served_beside_loopback() -> None:
    config = {"gateway": {"bind": "127.0.0.2"}}
    async with running_gateway(config=config) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        assert (await ask(port, "/healthz"))[0] == 200
        stream = await anyio.connect_tcp("127.0.0.2", port)
        await stream.aclose()


async def test_an_address_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "skerry.json").write_text('{"gateway": {"bind": "192.0.2.1"}}')
    environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path), "SKERRY_GATEWAY_PORT": "0"}
    with pytest.raises(AddressRefusedError) as refused:
        await serve(prepare(environ), environ, Outside())
    assert "gateway.bind" in refused.value.remedy


async def test_a_mode_without_its_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "skerry.json").write_text('{"gateway": {"auth": {"mode": "password"}}}')
    environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path), "SKERRY_GATEWAY_PORT": "0"}
    with pytest.raises(ConfigError) as refused:
        await serve(prepare(environ), environ, Outside())
    assert "SKERRY_GATEWAY_PASSWORD" in refused.value.remedy


@pytest.mark.parametrize("name", ["SKERRY_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PASSWORD"])
async def test_a_password_of_the_environment_lets_in_who_shows_it(
    tmp_path: Path, name: str
) -> None:
    environ = {name: "correct horse", "SKERRY_STATE_DIR": str(tmp_path)}
    gateway = GatewayProcess(tmp_path, environ=environ)
    try:
        await gateway.start()
        url = gateway.url.replace("http", "ws")
        port = url.rpartition(":")[2]
        gateway_address = find(environ | {"SKERRY_GATEWAY_PORT": port})
        async with GatewayClient(gateway_address) as client:
            assert client.hello["snapshot"]["authMode"] == "password"
        async with dial(url) as wire:
            assert (await wire.connect(auth={"password": "correct horse"}))["ok"]
        async with dial(url) as wire:
            error = (await wire.connect(auth={"password": "wrong"}))["error"]
        assert error["details"]["code"] == "AUTH_PASSWORD_MISMATCH"
        assert not (tmp_path / "skerry.json").exists()
    finally:
        await gateway.end()
