"""The key by which this machine is known elsewhere, judged by a real gateway."""

from pathlib import Path

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.client.device_key import KEY
from skerry.client.discover import GatewayAddress, find
from skerry.model.errors import ClientError, GatewayRefusedError
from tests.support.gateway import TOKEN, running_gateway


async def test_the_same_machine_is_the_same_device_each_time(tmp_path: Path) -> None:
    key = tmp_path / "own" / KEY
    with anyio.fail_after(60):
        async with running_gateway(tmp_path) as rig:
            address = GatewayAddress(rig.url, TOKEN, key)
            async with GatewayClient(address) as client:
                assert client.hello["auth"]["deviceToken"]
            async with GatewayClient(address) as client:
                (device,) = (await client.request("device.pair.list"))["paired"]
    assert (device["clientId"], device["roles"]) == ("cli", ["operator"])
    assert key.stat().st_mode & 0o777 == 0o600


async def test_a_refused_device_is_told_how_it_gets_in(tmp_path: Path) -> None:
    key = tmp_path / KEY
    with anyio.fail_after(60):
        async with running_gateway(tmp_path) as rig:
            address = GatewayAddress(rig.url, TOKEN, key)
            async with GatewayClient(address) as client:
                (device,) = (await client.request("device.pair.list"))["paired"]
                which = {"deviceId": device["deviceId"], "role": "operator"}
                async with GatewayClient(GatewayAddress(rig.url, TOKEN)) as admin:
                    await admin.request("device.token.revoke", which)
            with pytest.raises(GatewayRefusedError) as refused:
                async with GatewayClient(address):
                    pass
    assert refused.value.remedy.startswith("Run on the gateway: skerry devices approve ")


async def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    key = tmp_path / KEY
    key.write_text("no key")
    async with running_gateway(tmp_path) as rig:
        with pytest.raises(ClientError, match="holds no key"):
            async with GatewayClient(GatewayAddress(rig.url, TOKEN, key)):
                pass


def test_only_another_machine_is_shown_a_key(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert find(environ, url="wss://far.example", token=TOKEN).key == tmp_path / ".skerry" / KEY
    assert find(environ, url="ws://127.0.0.1:1", token=TOKEN).key is None
    assert find(environ, token=TOKEN).key is None
