"""A real disk that is full under a gateway: nothing accepted is lost, and it goes on by itself."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import running_gateway
from tests.support.readyz import ready


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    home = tmp_path / "disk"
    home.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(home)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"this system lets nobody mount: {mounted.stderr.decode()}")
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


def fill(disk: Path) -> Path:
    """Leaves the disk no byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


async def test_what_finds_no_room_is_refused_and_taken_when_there_is_room(
    tmp_path: Path, disk: Path
) -> None:
    platform = FakePlatform(tmp_path / "platform")
    send: dict[str, Any] = {"sessionKey": "main", "message": "x" * 50_000, "idempotencyKey": "k"}
    arguments = ["--platform", str(platform.folder)]
    async with running_gateway(home=disk, arguments=arguments) as gateway:
        ballast = fill(disk)
        async with GatewayClient(gateway.address) as client:
            with pytest.raises(GatewayRefusedError, match="full"):
                await client.request("chat.send", send)
            assert (await ready(gateway))["storage"] == "full"
            platform.say("y" * 50_000, message_id="m1")
            status = await client.request("status")
            assert (status["storage"]["state"], status["ready"]) == ("full", False)
            assert platform.acknowledged() == 0
            ballast.unlink()
            assert (await client.request("chat.send", send))["status"] == "started"
            with anyio.fail_after(60):
                while not platform.received():  # noqa: ASYNC110 - a file of another process
                    await anyio.sleep(0.02)
            assert (await ready(gateway))["ready"]
        assert await gateway.stop() == 0
    assert {message.in_reply_to for message in platform.received()} == {"m1"}
