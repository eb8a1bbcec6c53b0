"""The log over the wire, usage, and what the system tells an agent."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skerry.gateway.notices import MOST, MOST_CHARS, Notices
from skerry.infra.log import LOGS
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import Usage
from skerry.model.run import RunRequest
from skerry.ports.model import ModelCost, ModelInfo
from skerry.store import Unit, runs
from skerry.testing.clock import FakeClock
from tests.support.gateway import SESSION, Rig, result
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


async def used(rig: Rig, key: str, ended_at: int, usage: Usage, model: str = "stub-model") -> None:
    request = RunRequest(RunId(key), MAIN, "x")

    def write(unit: Unit) -> None:
        runs.add(unit, request, SESSION, 1, 1)
        runs.finish(unit, result(request, ended_at=ended_at, usage=usage, model=model))

    await rig.store.write(write)


async def test_usage_is_added_up_by_day_and_costs_what_is_known(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listing() -> list[ModelInfo]:
        return [ModelInfo("stub", "stub-model", "Stub", cost=ModelCost(input=2.0, output=10.0))]

    monkeypatch.setattr(rig.models, "listing", listing)
    day = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
    await used(rig, "1", day, Usage(100, 10, 5, 1, 116))
    await used(rig, "2", day, Usage(200, 20, 0, 0, 220))
    await used(rig, "3", day + 86_400_000, Usage(1, 1, 0, 0, 2), model="unknown")
    await used(rig, "4", day - 86_400_000, Usage(7, 7, 0, 0, 14))
    asked = {"startDate": "2026-11-20", "endDate": "2026-11-22"}
    told = await wire.call("usage.cost", asked)
    assert [one["date"] for one in told["daily"]] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    first, second, third = told["daily"]
    assert (first["input"], first["output"], first["cacheRead"], first["cacheWrite"]) == (
        300,
        30,
        5,
        1,
    )
    assert (first["inputCost"], first["outputCost"]) == pytest.approx((0.0006, 0.0003))
    assert first["totalCost"] == pytest.approx(0.0009)
    assert (second["totalTokens"], second["missingCostEntries"]) == (2, 1)
    assert (third["totalTokens"], third["missingCostEntries"]) == (0, 0)
    assert (told["days"], told["totals"]["totalTokens"]) == (3, 338)


@pytest.mark.parametrize("params", [{"startDate": "2026-13-01"}, {"days": 367}, {"endDate": "x"}])
async def test_no_day_of_a_calendar_is_refused(wire: Wire, params: dict[str, Any]) -> None:
    assert (await wire.ask("usage.cost", params))["error"]["code"] == "INVALID_REQUEST"


async def test_dates_the_wrong_way_round_are_no_days(wire: Wire) -> None:
    told = await wire.call("usage.cost", {"startDate": "2026-11-20", "endDate": "2026-11-01"})
    assert (told["days"], told["daily"]) == (0, [])


async def test_waking_now_starts_a_run(rig: Rig, wire: Wire) -> None:
    told = await wire.call("wake", {"mode": "now", "text": "the door rang", "more": 1})
    assert told["ok"]
    (request,) = rig.dispatcher.submitted
    assert (request.key, request.text, request.run_id) == (MAIN, "the door rang", told["runId"])


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
        said = {"text": "Node: laptop", "reason": "periodic", "lastInputSeconds": 7, "tags": ["a"]}
        await wire.call("system-event", {**said, "ip": "203.0.113.9"})
        entries = await other.call("system-presence")
    (entry,) = (one for one in entries if one["text"] == "Node: laptop")
    assert (entry["reason"], entry["lastInputSeconds"], entry["tags"]) == ("periodic", 7, ["a"])
    assert entry["ip"] == "127.0.0.1"
    assert (await wire.call("status"))["queuedSystemEvents"] == []


def test_notices_are_bounded_and_a_repeated_one_stands_once() -> None:
    notices = Notices(FakeClock())
    notices.add(MAIN, "x" * 1_000_000)
    assert [len(text) for _, text in notices.waiting(MAIN)] == [MOST_CHARS]
    for number in range(MOST + 5):
        notices.add(MAIN, str(number))
        notices.add(MAIN, str(number))
    assert [text for _, text in notices.waiting(MAIN)] == [str(n) for n in range(5, MOST + 5)]
    for number in range(300):
        notices.add(SessionKey.parse(f"s{number}"), "x")
    assert len(notices.all()) <= 200 + MOST
    assert notices.waiting(MAIN) == ()
