"""Methods with an idempotency key: one effect, one answer, whatever comes again."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.model.ids import SessionId, SessionKey
from skerry.store import Unit, idempotency_keys, sessions
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire, connected

KEY = {"idempotencyKey": "k1"}
CHAT = SessionKey.parse("agent:main:chat")


async def begun(rig: Rig, new_id: str = "id-chat") -> None:
    def work(unit: Unit) -> None:
        sessions.ensure(unit, CHAT, SessionId(new_id), 7)

    await rig.store.write(work)


async def refused(wire: Wire, method: str, params: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = (await wire.ask(method, params))["error"]
    return error


@pytest.mark.requirement("wire-idempotency-required")
async def test_a_repeat_gets_the_first_answer_also_after_a_restart(tmp_path: Path) -> None:
    note = {"sessionKey": "chat", "message": "a note"} | KEY
    async with running_gateway(tmp_path) as rig, connected(rig.url) as wire:
        await begun(rig)
        first = await wire.call("chat.inject", note)
        reset = await wire.call("sessions.reset", {"key": "chat"} | KEY)
        assert await wire.call("chat.inject", note) == first
    async with running_gateway(tmp_path) as rig, connected(rig.url) as wire:
        assert await wire.call("chat.inject", note) == first
        assert await wire.call("sessions.reset", {"key": "chat"} | KEY) == reset
        history = await wire.call("chat.history", {"sessionKey": "chat", "sessionId": "id-chat"})
        assert len(history["messages"]) == 1


async def test_the_same_key_with_other_content_is_an_error(rig: Rig, wire: Wire) -> None:
    await begun(rig)
    await wire.call("sessions.patch", {"key": "chat", "label": "one"} | KEY)
    error = await refused(wire, "sessions.patch", {"key": "chat", "label": "two"} | KEY)
    assert (error["code"], error["details"]["code"]) == ("INVALID_REQUEST", "request.key_reused")
    listed = await wire.call("sessions.list", {})
    assert [session["label"] for session in listed["sessions"]] == ["one"]


async def test_a_repeat_in_flight_is_told_so(rig: Rig, wire: Wire) -> None:
    await begun(rig)
    gate, at_work = anyio.Event(), anyio.Event()
    run_exclusive = rig.dispatcher.run_exclusive

    async def slow(*given: Any, **named: Any) -> Any:
        at_work.set()
        await gate.wait()
        return await run_exclusive(*given, **named)

    rig.dispatcher.run_exclusive = slow  # type: ignore[method-assign]  # a fake of the test
    ask = {"type": "req", "method": "sessions.reset", "params": {"key": "chat"} | KEY}
    await wire.send(ask | {"id": "a"})
    with anyio.fail_after(60):
        await at_work.wait()
    error = await refused(wire, "sessions.reset", {"key": "chat"} | KEY)
    assert (error["details"]["code"], error["retryable"]) == ("IN_FLIGHT", True)
    other = await refused(wire, "sessions.reset", {"key": "main"} | KEY)
    assert other["details"]["code"] == "request.key_reused"
    gate.set()
    assert (await wire.response("a"))["ok"]
    assert rig.context.in_flight == {}


async def test_what_was_refused_may_be_asked_again(rig: Rig, wire: Wire) -> None:
    inject = {"sessionKey": "chat", "message": "x"} | KEY
    assert (await refused(wire, "chat.inject", inject))["message"] == "session not found"
    await begun(rig)
    assert (await wire.call("chat.inject", inject))["ok"]


async def test_an_effect_whose_answer_was_lost_is_not_repeated(rig: Rig, wire: Wire) -> None:
    await begun(rig)
    await wire.call("sessions.delete", {"key": "chat"} | KEY)
    await rig.store.write(
        lambda unit: unit.execute("UPDATE answered SET answer = NULL")  # as a kill leaves it
    )
    await begun(rig, "id-later")
    error = await refused(wire, "sessions.delete", {"key": "chat"} | KEY)
    assert error["details"]["code"] == "ANSWER_LOST"
    assert len((await wire.call("sessions.list", {}))["sessions"]) == 1


async def test_a_key_whose_effect_is_in_memory_is_free_when_nothing_came_of_it(
    rig: Rig, wire: Wire
) -> None:
    rig.dispatcher.refuse = RuntimeError("as planned")
    await wire.ask("wake", {"mode": "now", "text": "up"} | KEY)
    used_key = await rig.store.read(lambda reader: idempotency_keys.find(reader, "wake", "k1"))
    assert used_key is None
    rig.dispatcher.refuse = None
    first = await wire.call("wake", {"mode": "now", "text": "up"} | KEY)
    assert await wire.call("wake", {"mode": "now", "text": "up"} | KEY) == first
    assert len(rig.dispatcher.submitted) == 1


async def test_a_conversation_is_compacted_once_a_key(rig: Rig, wire: Wire) -> None:
    await wire.call("sessions.patch", {"key": "chat", "label": "Chat"})
    params = {"key": "chat", "instructions": "keep names", "idempotencyKey": "k1"}
    first = await wire.call("sessions.compact", params)
    assert await wire.call("sessions.compact", params) == first
    reply = await wire.ask("sessions.compact", params | {"instructions": "keep places"})
    assert reply["error"]["details"]["code"] == "request.key_reused"
    assert len(rig.dispatcher.compacted) == 1
