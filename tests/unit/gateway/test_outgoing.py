"""Clients that read slowly, or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.frames import Frame, Opcode

from skerry.gateway import protocol
from skerry.gateway.connection import MAX_WORKING
from skerry.gateway.frames import MAX_BUFFERED
from skerry.gateway.protocol import GatewayProtocol
from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import user
from skerry.store import Unit, sessions
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected, dial, present_modes, request

RUN = RunId("slow")
SMALL_BUFFER = 128 * 1024


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path, send_buffer=SMALL_BUFFER) as rig:
        yield rig


@asynccontextmanager
async def stuck(rig: Rig) -> AsyncIterator[Wire]:
    """A client that is let in and then reads nothing until its test lets it."""
    async with dial(rig.url, max_queue=1) as wire:
        answer = await wire.connect()
        assert answer["ok"]
        wire.socket.transport.pause_reading()
        try:
            yield wire
        finally:
            wire.socket.transport.abort()


def talk(rig: Rig, megabytes: int) -> None:
    """Lets the run say much; each event carries all of it so far."""
    for _ in range(megabytes):
        stream = rig.context.broadcast._streams.get(RUN)
        if stream is not None:
            stream.flushed_at = float("-inf")  # as if 150 ms had gone by
        rig.dispatcher.tell(RUN, TextDelta("x" * 100_000))


async def begin(rig: Rig) -> Wire:
    async with connected(rig.url) as other:
        await other.call(
            "chat.send", {"sessionKey": "main", "message": "go", "idempotencyKey": RUN}
        )
    rig.dispatcher.tell(RUN, RunStarted(1))
    return other


@pytest.mark.requirement("gateway-drop-if-slow")
@pytest.mark.requirement("gateway-final-guaranteed")
async def test_a_slow_client_loses_deltas_but_no_end_and_its_numbers_have_no_gap(rig: Rig) -> None:
    async with stuck(rig) as slow:
        await begin(rig)
        talk(rig, 30)  # 30 pairs of 0.1 to 3 MB: 93 MB
        rig.dispatcher.end(RUN, payloads=("done",))
        slow.socket.transport.resume_reading()
        with anyio.fail_after(120):
            final = await slow.event("chat", state="final")
        assert final["payload"]["message"]["content"] == [{"type": "text", "text": "done"}]
        states = [
            frame["payload"].get("state") or frame["payload"]["data"].get("phase", "delta")
            for frame in slow.frames
            if frame["type"] == "event" and frame["event"] in {"agent", "chat"}
        ]
        assert 0 < states.count("delta") < 60
        assert states[-2:] == ["end", "final"]
        numbers = [frame["seq"] for frame in slow.frames if "seq" in frame]
        assert numbers == list(range(1, len(numbers) + 1))
        assert await slow.call("agents.list")


@pytest.mark.requirement("gateway-drop-if-slow")
async def test_another_client_receives_all_events_that_a_slow_one_loses(rig: Rig) -> None:
    async with stuck(rig), connected(rig.url) as quick:
        await begin(rig)
        for number in range(1, 16):
            talk(rig, 1)
            delta = await quick.event("chat", state="delta")
            assert len(delta["payload"]["message"]["content"][0]["text"]) == number * 100_000


async def test_a_client_that_leaves_too_much_unread_is_given_up_with_a_reason(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_BUFFERED == 52_428_800
    monkeypatch.setattr(protocol, "MAX_BUFFERED", 4_000_000)

    def write(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
        sessions.append(unit, session_id, tail, "r", [user("x" * 1_000_000, 1)], 1)

    await rig.store.write(write)
    async with stuck(rig) as slow, connected(rig.url) as quick:
        await slow.send(request("agent.wait", {"runId": "nobody", "timeoutMs": 600_000}))
        for number in range(20):
            await slow.send(request("chat.history", {"sessionKey": "main"}, id=f"h{number}"))
        await quick.until(lambda frame: present_modes(frame) == ["gateway", "test"])  # it left
        assert rig.dispatcher.waiting == 0  # and what it waited for is not waited for
        assert len(await quick.call("system-presence")) == 2
        slow.socket.transport.resume_reading()
        assert await slow.closed() == (1008, "slow consumer")


async def test_a_client_that_never_reads_again_is_cut_off(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off = anyio.Event()
    connection_lost = GatewayProtocol.connection_lost

    def lose(protocol: GatewayProtocol, exc: Exception | None) -> None:
        connection_lost(protocol, exc)
        cut_off.set()

    monkeypatch.setattr(GatewayProtocol, "connection_lost", lose)
    monkeypatch.setattr(protocol, "MAX_BUFFERED", 1_000_000)
    assert protocol.CLOSE_SECONDS == 5.0
    monkeypatch.setattr(protocol, "CLOSE_SECONDS", 0.2)
    async with stuck(rig):
        for _ in range(80):
            rig.context.broadcast.send("health", {"text": "x" * 100_000})
        with anyio.fail_after(60):
            await cut_off.wait()


async def test_who_asks_and_does_not_read_is_served_no_further_until_it_does(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
        sessions.append(unit, session_id, tail, "r", [user("x" * 200_000, 1)], 1)

    await rig.store.write(write)
    read, begun, reading = rig.store.read, 0, 0

    async def counted(work: Any) -> Any:
        nonlocal begun, reading
        begun, reading = begun + 1, reading + 1
        try:
            return await read(work)
        finally:
            reading -= 1

    monkeypatch.setattr(rig.store, "read", counted)
    async with stuck(rig) as slow, connected(rig.url) as quick:
        for number in range(100):
            await slow.send(request("chat.history", {"sessionKey": "main"}, id=f"h{number}"))
        while reading or begun < MAX_WORKING:
            await quick.call("agents.list")
        assert begun < 2 * MAX_WORKING
        slow.socket.transport.resume_reading()
        answered: set[str] = set()
        while len(answered) < 100:
            frame = await slow.receive()
            if frame.get("ok") and str(frame["id"]).startswith("h"):
                answered.add(frame["id"])


async def test_who_leaves_while_it_is_not_served_leaves_nothing(rig: Rig) -> None:
    def write(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
        sessions.append(unit, session_id, tail, "r", [user("x" * 200_000, 1)], 1)

    await rig.store.write(write)
    async with connected(rig.url) as quick:
        async with stuck(rig) as slow:
            for number in range(60):
                await slow.send(request("chat.history", {"sessionKey": "main"}, id=f"h{number}"))
            await quick.until(lambda frame: len(present_modes(frame)) == 3)
            slow.socket.transport.abort()
        await quick.until(lambda frame: present_modes(frame) == ["gateway", "test"])


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_text_is_framed_as_the_library_would(size: int) -> None:
    text = b"x" * size
    framed = protocol._text_head(size) + text
    assert framed == Frame(Opcode.TEXT, text).serialize(mask=False)
