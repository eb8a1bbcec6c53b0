"""The state machine of the protocol finds faults: each is seeded once, and must not go unseen."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis.stateful import run_state_machine_as_test

from skerry.gateway import dispatch
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.frames import Json, RequestFrame
from skerry.gateway.method import Call
from tests.property.test_protocol_machine import Protocol
from tests.support.gateway import running_gateway
from tests.support.shown import shown
from tests.support.wire import connected, request

Answer = Json | Coroutine[Any, Any, Json]
Fault = Callable[[RequestFrame, Call, Answer], Answer]


class Impatient(Protocol):
    """What does not answer is found soon."""

    patience = 0.5


def _never(frame: RequestFrame, _call: Call, answer: Answer) -> Answer:
    """Forgets one method's requests."""
    if frame.method != "health":
        return answer
    return anyio.sleep_forever()


def _twice(frame: RequestFrame, call: Call, answer: Answer) -> Answer:
    """Answers one method's requests once more."""
    if frame.method == "health":
        call.respond({})
    return answer


def _late(frame: RequestFrame, call: Call, answer: Answer) -> Answer:
    """Answers once more, afterwards."""
    if frame.method == "health":
        asyncio.get_running_loop().call_soon(call.respond, {})
    return answer


def _broken(frame: RequestFrame, _call: Call, answer: Answer) -> Answer:
    """Fail inside."""
    if frame.method == "health":
        raise RuntimeError("seeded")
    return answer


@pytest.mark.parametrize("fault", [_never, _twice, _late, _broken])
def test_a_fault_of_a_method_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MethodTable.call

    def faulty(table: MethodTable, frame: RequestFrame, call: Call) -> Answer:
        return fault(frame, call, whole(table, frame, call))

    monkeypatch.setattr(MethodTable, "call", faulty)
    _fails()


def test_a_method_that_asks_for_no_scope_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_check_access", lambda *_: None)
    _fails()


async def test_a_run_that_is_accepted_is_played_when_who_asked_is_gone(tmp_path: Path) -> None:
    again = {"message": "hi", "sessionKey": "main", "idempotencyKey": "a"}
    async with running_gateway(tmp_path) as rig:
        rig.dispatcher.reply = str.upper
        async with connected(rig.url) as gone:
            await gone.send(request("agent", again))
        async with connected(rig.url, minProtocol=3, maxProtocol=3) as wire:
            answer = await wire.ask("agent", again)
            while answer["payload"]["status"] == "accepted":
                answer = await wire.response("a1")
            assert answer["payload"]["result"]["payloads"][0]["text"] == "HI"


async def test_the_harness_sends_nothing_that_is_no_json(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig, connected(rig.url) as wire:
        with pytest.raises(ValueError, match="JSON compliant"):
            await wire.send(request("health", {"probe": math.inf}))


def _fails() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Impatient, settings=shown(Protocol.TestCase.settings))
