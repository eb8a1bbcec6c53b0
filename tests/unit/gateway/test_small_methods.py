"""The log over the wire, and system events for an agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.gateway.system_events import MAX_CHARS, MAX_EVENTS, SystemEvents
from skerry.infra.log import LOGS
from skerry.model.ids import RunId, SessionKey
from skerry.testing.clock import FakeClock
from tests.support.gateway import Rig
from tests.support.wire import Wire, connected

MAIN = SessionKey.main()
LINE = {"time": "2026-11-21T20:56:00.000Z", "level": "info", "logger": "a.b", "message": "hi"}


def log(home: Path, *lines: str) -> Path:
    folder = home / LOGS
    folder.mkdir(exist_ok=True)
    path = folder / "skerry-2026-11-21.log"
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


async def test_the_log_is_read_from_its_cursor_on(tmp_path: Path, wire: Wire) -> None:
    assert (await wire.call("logs.tail"))["lines"] == []
    path = log(tmp_path, json.dumps(LINE), "somebody else's")
    first = await wire.call("logs.tail", {"limit": 5})
    assert (first["file"], first["truncated"], first["reset"]) == (str(path), False, False)
    ours, other = first["lines"]
    who = '{"subsystem": "a.b"}'
    meta = {"logLevelName": "INFO", "date": LINE["time"], "name": who}
    assert json.loads(ours) == {**LINE, "0": who, "1": "hi", "_meta": meta}
    assert other == "somebody else's"
    log(tmp_path, "more")
    again = await wire.call("logs.tail", {"cursor": first["cursor"]})
    assert again["lines"] == ["more"]


@pytest.mark.parametrize(
    ("params", "problem"),
    [({"limit": 5001}, "/limit"), ({"maxBytes": 1_000_001}, "/maxBytes"), ({"cursor": -1}, "curs")],
)
async def test_reading_the_log_is_bounded(wire: Wire, params: dict[str, Any], problem: str) -> None:
    assert problem in (await wire.ask("logs.tail", params))["error"]["message"]


async def test_waking_now_starts_a_run(rig: Rig, wire: Wire) -> None:
    payload = await wire.call("wake", {"mode": "now", "text": "the door rang", "more": 1})
    assert payload["ok"]
    (request,) = rig.dispatcher.submitted
    assert (request.key, request.text, request.run_id) == (MAIN, "the door rang", payload["runId"])


async def test_a_run_that_waking_starts_has_the_scopes_of_the_client(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.write"]) as writer:
        await writer.call("wake", {"mode": "now", "text": "/config set a 1"})
    (request,) = rig.dispatcher.submitted
    assert request.scopes == ("operator.write",)


@pytest.mark.parametrize("method", ["agent", "chat.send"])
async def test_what_waits_is_told_to_the_next_run_once(rig: Rig, wire: Wire, method: str) -> None:
    await wire.call("wake", {"mode": "next-heartbeat", "text": "it rains"})
    await wire.call("system-event", {"text": "the disk is full"})
    assert (await wire.call("status"))["queuedSystemEvents"] == ["it rains", "the disk is full"]
    for key in ("1", "2"):
        sent = {"sessionKey": "main", "message": "hi", "idempotencyKey": key}
        await wire.call(method, sent)
        rig.dispatcher.end(RunId(key))
    first, second = rig.dispatcher.submitted
    head, *lines = first.extra_system_prompt.splitlines()
    assert head == "Since the last message:"
    assert [line.split("UTC] ")[1] for line in lines] == ["it rains", "the disk is full"]
    assert second.extra_system_prompt == ""
    assert (await wire.call("status"))["queuedSystemEvents"] == []


async def test_what_waits_stays_while_a_run_is_on(rig: Rig, wire: Wire) -> None:
    sent = {"sessionKey": "main", "message": "hi", "idempotencyKey": "on"}
    await wire.call("chat.send", sent)
    await wire.call("system-event", {"text": "later"})
    await wire.call("chat.send", {**sent, "idempotencyKey": "steers"})
    assert rig.dispatcher.submitted[-1].extra_system_prompt == ""
    assert (await wire.call("status"))["queuedSystemEvents"] == ["later"]


async def test_a_client_tells_others_of_itself(rig: Rig, wire: Wire) -> None:
    async with connected(rig.url) as other:
        payload = {
            "text": "Node: laptop",
            "reason": "periodic",
            "lastInputSeconds": 7,
            "tags": ["a"],
        }
        await wire.call("system-event", {**payload, "ip": "203.0.113.9"})
        entries = await other.call("system-presence")
    (entry,) = (entry for entry in entries if entry["text"] == "Node: laptop")
    assert (entry["reason"], entry["lastInputSeconds"], entry["tags"]) == ("periodic", 7, ["a"])
    assert entry["ip"] == "127.0.0.1"
    assert (await wire.call("status"))["queuedSystemEvents"] == []


def test_system_events_are_bounded_and_a_repeated_one_is_queued_once() -> None:
    events = SystemEvents(FakeClock())
    events.add(MAIN, "x" * 1_000_000)
    assert [len(text) for _, text in events.queued[MAIN]] == [MAX_CHARS]
    for number in range(MAX_EVENTS + 5):
        events.add(MAIN, str(number))
        events.add(MAIN, str(number))
    assert [text for _, text in events.queued[MAIN]] == [str(n) for n in range(5, MAX_EVENTS + 5)]
    for number in range(300):
        events.add(SessionKey.parse(f"s{number}"), "x")
    assert len(events.texts()) <= 200 + MAX_EVENTS
    assert MAIN not in events.queued
