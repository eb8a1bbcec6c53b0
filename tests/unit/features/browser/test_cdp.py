"""The client of the protocol, over real pipes with a program of the test as the browser."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from skerry.features.browser import cdp as client
from skerry.features.browser.cdp import Cdp, CdpError
from skerry.infra.pipes import ReadPipe, WritePipe

Answer = Callable[[dict[str, Any]], list[bytes]]


def answer(command: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"id": command["id"], **fields}).encode() + b"\0"


@asynccontextmanager
async def connected(answers: Answer) -> AsyncIterator[Cdp]:
    """Runs a client whose commands are answered by a function."""
    ends = [*os.pipe(), *os.pipe()]
    theirs_in, ours_out, ours_in, theirs_out = ends
    reading = ReadPipe(os.fdopen(ours_in, "rb", buffering=0))
    writing = WritePipe(os.fdopen(ours_out, "wb", buffering=0))
    commands = ReadPipe(os.fdopen(theirs_in, "rb", buffering=0))
    replies = WritePipe(os.fdopen(theirs_out, "wb", buffering=0))
    cdp = Cdp(reading, writing)

    async def browser() -> None:
        data = b""
        async for part in commands:
            *whole, data = (data + part).split(b"\0")
            for message in whole:
                for reply in answers(json.loads(message)):
                    if reply == b"end":
                        await replies.aclose()
                        return
                    await replies.send(reply)

    async with reading, writing, commands, replies, anyio.create_task_group() as tasks:
        tasks.start_soon(browser)
        tasks.start_soon(cdp.run)
        with anyio.fail_after(60):
            yield cdp
        tasks.cancel_scope.cancel()


async def test_a_command_gets_its_own_answer() -> None:
    waiting: list[dict[str, Any]] = []

    def late(command: dict[str, Any]) -> list[bytes]:
        waiting.append(command)
        if len(waiting) < 2:
            return []
        return [answer(each, result={"was": each["method"]}) for each in reversed(waiting)]

    results: dict[str, Any] = {}
    async with connected(late) as cdp, anyio.create_task_group() as tasks:

        async def call(method: str) -> None:
            results[method] = await cdp.call(method, {"x": 1}, "S")

        tasks.start_soon(call, "A.a")
        tasks.start_soon(call, "B.b")
    assert results == {"A.a": {"was": "A.a"}, "B.b": {"was": "B.b"}}
    assert [each["sessionId"] for each in waiting] == ["S", "S"]


async def test_events_are_delivered_with_their_session() -> None:
    event = json.dumps({"method": "X.y", "params": {"a": 1}, "sessionId": "S"}).encode() + b"\0"
    events: list[tuple[str, str, dict[str, Any]]] = []
    parts = [event[:5], event[5:] + event]
    async with connected(lambda command: [*parts, answer(command)]) as cdp:
        cdp.on_event = lambda *each: events.append(each)
        await cdp.call("A.a")
    assert events == [("S", "X.y", {"a": 1})] * 2


async def test_a_refused_command_raises_its_reason() -> None:
    async with connected(lambda command: [answer(command, error={"message": "No node"})]) as cdp:
        with pytest.raises(CdpError, match=r"DOM\.focus: No node"):
            await cdp.call("DOM.focus")


@pytest.mark.parametrize("reply", [b"end", b"not json\0", b"[]\0"])
async def test_the_end_of_the_browser_ends_all_waits(reply: bytes) -> None:
    async with connected(lambda _: [reply]) as cdp:
        with pytest.raises(CdpError, match="has ended"):
            await cdp.call("A.a")
        assert cdp.ended.is_set()
        with pytest.raises(CdpError, match="has ended"):
            await cdp.call("A.a")
        cdp.tell("A.a")


async def test_a_message_without_an_end_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_MESSAGE", 1000)
    async with connected(lambda _: [b"x" * 1001]) as cdp:
        with pytest.raises(CdpError, match="has ended"):
            await cdp.call("A.a")


async def test_commands_to_a_target_that_is_gone_fail() -> None:
    async with connected(lambda _: []) as cdp, anyio.create_task_group() as tasks:

        async def forget() -> None:
            cdp.forget("other")
            cdp.forget("S")

        tasks.start_soon(forget)
        with pytest.raises(CdpError, match="the page or the browser has ended"):
            await cdp.call("A.a", session="S")


async def test_commands_that_are_not_read_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_QUEUED", 3)
    async with connected(lambda _: []) as cdp:
        for _ in range(3):
            cdp.tell("A.a")
        with pytest.raises(CdpError, match="reads no commands"):
            cdp.tell("A.a")
        assert cdp.ended.is_set()
