"""A large frame is paid for once: its memory goes back to the system."""

import json
from pathlib import Path

from skerry.testing.gateway import running_gateway
from tests.e2e.test_frames import MEBIBYTE, memory
from tests.support.chaos import until
from tests.support.wire import Wire, connected

SIZE = 24 * MEBIBYTE


async def ask(wire: Wire, size: int) -> None:
    """Sends a request of that size, whose parameter no method has."""
    frame = {"type": "req", "id": f"r{size}", "method": "health", "params": {"more": "x" * size}}
    await wire.socket.send(json.dumps(frame))
    await wire.until(lambda row: row.get("id") == f"r{size}")


async def test_the_memory_of_a_large_frame_is_given_back(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path / "home") as gateway:
        address = gateway.address
        async with connected(address.url, auth={"token": address.token}) as wire:
            await ask(wire, 1)
            before = memory(gateway)
            await ask(wire, SIZE)
            await until(lambda: memory(gateway) < before + SIZE // 2, lambda: memory(gateway))
            await ask(wire, SIZE)
            await until(lambda: memory(gateway) < before + SIZE // 2, lambda: memory(gateway))
