"""Methods about undelivered parts, and `chat.retry`."""

from typing import Any

import pytest

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.store import Unit, outbox, runs, sessions
from skerry.store.outbox import PartState
from tests.support.core import MAIN, request
from tests.support.gateway import SESSION, Rig, result
from tests.support.wire import Wire, connected

TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "alice"), "m1")


async def filled(rig: Rig) -> None:
    def work(unit: Unit) -> None:
        outbox.add(unit, RunId("r1"), 0, TO, ["one\n" * 100, "two", "three"], 5)
        outbox.set_error(unit, 1, "blocked")
        outbox.mark(unit, 1, PartState.FAILED, 6)
        outbox.mark(unit, 3, PartState.SENT, 6)

    await rig.store.write(work)


async def listed(wire: Wire, **params: Any) -> list[tuple[int, str]]:
    parts = (await wire.call("outbox.list", params))["parts"]
    return [(part["serial"], part["state"]) for part in parts]


async def test_what_is_not_delivered_is_listed_shown_sent_again_and_dropped(
    rig: Rig, wire: Wire
) -> None:
    await filled(rig)
    assert await listed(wire) == [(1, "failed"), (2, "pending")]
    assert await listed(wire, states=["sent"]) == [(3, "sent")]
    (failed, _) = (await wire.call("outbox.list"))["parts"]
    assert (failed["error"], len(failed["text"])) == ("blocked", 120)
    shown = (await wire.call("outbox.get", {"serial": 1}))["part"]
    assert (shown["text"], shown["to"]["peer"]) == ("one\n" * 100, "alice")
    await wire.call("outbox.retry", {"serial": 1})
    await wire.call("outbox.drop", {"serial": 2})
    assert await listed(wire) == [(1, "pending")]


async def test_what_cannot_be_done_to_a_part_is_said(rig: Rig, wire: Wire) -> None:
    await filled(rig)
    for method, serial in (("get", 9), ("retry", 9), ("retry", 3), ("drop", 3)):
        error = (await wire.ask(f"outbox.{method}", {"serial": serial}))["error"]
        assert error["code"] == "INVALID_REQUEST"
    error = (await wire.ask("outbox.list", {"states": ["lost"]}))["error"]
    assert "dropped, failed, pending" in error["message"]


async def test_who_may_only_read_decides_nothing(rig: Rig) -> None:
    await filled(rig)
    async with connected(rig.url, scopes=["operator.read"]) as wire:
        assert len(await listed(wire)) == 2
        for method in ("outbox.retry", "outbox.drop"):
            assert (await wire.ask(method, {"serial": 1}))["error"]["code"] == "FORBIDDEN"


async def ended(rig: Rig, text: str, **changes: Any) -> None:
    def work(unit: Unit) -> None:
        payload = request(text)
        session_id, _ = sessions.ensure(unit, MAIN, SESSION, 1)
        runs.add(unit, payload, session_id, 0, 1)
        runs.finish(unit, result(payload, **changes))

    await rig.store.write(work)


@pytest.mark.parametrize("reason", ["interrupted", "error", "timeout"])
async def test_a_message_whose_run_came_to_nothing_runs_again_once(
    rig: Rig, wire: Wire, reason: str
) -> None:
    await ended(rig, "hello", stop_reason=reason)
    started = await wire.call("chat.retry", {"sessionKey": "main"})
    assert started == {"runId": "hello:retry", "status": "started"}
    assert [request.text for request in rig.dispatcher.submitted] == ["hello"]
    again = await wire.call("chat.retry", {"sessionKey": "main"})
    assert again["status"] == "in_flight"


async def test_there_is_nothing_to_retry_after_an_answer(rig: Rig, wire: Wire) -> None:
    await ended(rig, "first", stop_reason="interrupted")
    await ended(rig, "second")
    error = (await wire.ask("chat.retry", {"sessionKey": "main"}))["error"]
    assert error["details"]["code"] == "NOTHING_TO_RETRY"
