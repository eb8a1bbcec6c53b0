"""Ten thousand broken frames: each is answered or ends its connection, and nothing grows."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from skerry.gateway.dispatch import MethodTable
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.support.wire import Wire, connected, dial

CAPTURES: Final = Path(__file__).parents[1] / "data"
MEBIBYTE: Final = 1024 * 1024
ODD: Final[list[Any]] = [None, True, -1, 1e308, "", "\0", "\ud800", "x" * 5000, [], {}, [[[]]]]


def known_frames() -> list[str]:
    """Returns a request for each method, and every frame of the captures."""
    params = {"sessionKey": "main", "key": "main", "message": "hi", "idempotencyKey": "k", "ts": 1}
    frames: list[dict[str, Any]] = [
        {"type": "req", "id": method, "method": method, "params": params}
        for method in MethodTable().names
    ]
    for path in sorted(CAPTURES.glob("gateway-v?.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            frames += within(json.loads(line))
    return [json.dumps(frame) for frame in frames]


def within(value: object) -> Iterator[dict[str, Any]]:
    """Yields the frames in a captured line."""
    match value:
        case {"type": "req" | "res" | "event"}:
            yield cast("dict[str, Any]", value)
        case dict():
            for one in value.values():
                yield from within(one)
        case list():
            for one in value:
                yield from within(one)
        case _:
            pass


def broken(chance: random.Random, known: list[str]) -> str | bytes:
    """Returns a frame that no client sends."""
    text = chance.choice(known)
    match chance.randrange(6):
        case 0:
            at = chance.randrange(len(text))
            return text[:at]
        case 1:
            at = chance.randrange(len(text))
            return text[:at] + chr(chance.randrange(0xD800)) + text[at + 1 :]
        case 2:
            frame = json.loads(text)
            frame[chance.choice(["type", "id", "method", "params", "more"])] = chance.choice(ODD)
            return json.dumps(frame)
        case 3:
            frame = json.loads(text)
            if isinstance(frame.get("params"), dict):
                name = chance.choice([*frame["params"], "__proto__", "more"])
                frame["params"][name] = chance.choice(ODD)
            frame["type"] = "req"
            return json.dumps(frame)
        case 4:
            return chance.randbytes(chance.randrange(200))
        case _:
            return "[" * chance.randrange(2000) + text


def memory(gateway: GatewayProcess) -> int:
    pages = int(Path(f"/proc/{gateway.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


async def pour(wire: Wire, chance: random.Random, known: list[str], count: int) -> int:
    """Sends frames until all went or the connection ended; returns how many went.

    A connection that is still open then must answer an honest request.
    """
    sent, end = 0, {"type": "req", "id": "end", "method": "health", "params": {}}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answered, wire)
        with suppress(ConnectionClosed):
            while sent < count:
                frame = broken(chance, known)
                if isinstance(frame, str):
                    frame = frame.encode("utf-8", "replace").decode()
                await wire.socket.send(frame)
                sent += 1
            await wire.socket.send(json.dumps(end))
    return max(sent, 1)


async def answered(wire: Wire) -> None:
    """Reads until the honest request is answered or the connection ends."""
    with suppress(ConnectionClosed):
        async for text in wire.socket:
            frame = json.loads(text)
            if frame["type"] == "res" and frame["id"] == "end":
                return


async def test_broken_frames_leave_it_serving(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(20261122)  # noqa: S311 - the same frames each time
    known = known_frames()
    assert len(known) > 20
    async with running_gateway(home=tmp_path) as gateway:
        address = gateway.address
        left, before = 10_000, 0
        while left > 0:
            inside = chance.random() < 0.8
            opened = (
                connected(address.url, auth={"token": address.token})
                if inside
                else dial(address.url)
            )
            with anyio.fail_after(60):
                async with opened as wire:
                    left -= await pour(wire, chance, known, min(left, 100))
            if not before and left < 8_000:
                before = memory(gateway)
        async with connected(address.url, auth={"token": address.token}) as wire:
            await wire.call("health")
        assert memory(gateway) - before < 40 * MEBIBYTE
    log = "".join(path.read_text() for path in (tmp_path / "logs").glob("skerry-*.log"))
    assert "Traceback" not in log + capfd.readouterr().err
