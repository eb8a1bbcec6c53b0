"""What conversations used and what was said in them, over the wire."""

from pathlib import Path
from typing import Any

import pytest

from skerry.features.usage import session_methods as session_usage
from skerry.hooks.hooks import Hooks
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Unit, archive, sessions, usage
from skerry.store.usage import CallOutcome
from tests.support.gateway import Rig
from tests.support.ledger import call
from tests.support.whole import CALL, whole_gateway
from tests.support.wire import Wire, connected

RANGE = {"startDate": "2026-11-20", "endDate": "2026-11-22"}
TOTALS = {
    *("input", "output", "cacheRead", "cacheWrite", "totalTokens", "totalCost", "inputCost"),
    *("outputCost", "cacheReadCost", "cacheWriteCost", "missingCostEntries"),
}
"""What every page adds up without asking whether it is there."""


async def two_lives(rig: Rig) -> None:
    """A conversation that was begun anew, with calls before and after."""

    def write(unit: Unit) -> None:
        sessions.ensure(unit, SessionKey.main(), SessionId("old"), 1)
        archive.reset(unit, SessionKey.main(), SessionId("new"), 2)
        for booked_call in (
            call(30, day="2026-11-20", session="old", at=10),
            call(5, day="2026-11-21", session="new", at=20),
            call(7, day="2026-11-22", session="new", at=30, outcome=CallOutcome.ERROR),
        ):
            usage.book(unit, booked_call)

    await rig.store.write(write)


async def test_a_usage_page_finds_every_part_that_it_reads(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        for number, text in enumerate(("hello", CALL)):
            params = {"sessionKey": "main", "message": text, "idempotencyKey": str(number)}
            await wire.call("chat.send", params)
            await wire.event("chat", state="final", runId=str(number))
        payload = await wire.call("sessions.usage", {"limit": 1000, "includeContextWeight": True})
        (row,) = payload["sessions"]
        series = await wire.call("sessions.usage.timeseries", {"key": row["key"]})
        logs = (await wire.call("sessions.usage.logs", {"key": row["key"], "limit": 1000}))["logs"]
    everything = payload["aggregates"]
    counted = {"total": 5, "user": 2, "assistant": 3, "toolCalls": 1, "toolResults": 1, "errors": 0}
    tools = {"totalCalls": 1, "uniqueTools": 1, "tools": [{"name": "read", "count": 1}]}
    assert (everything["messages"], row["usage"]["messageCounts"]) == (counted, counted)
    assert (everything["tools"], row["usage"]["toolUsage"]) == (tools, tools)
    assert payload["totals"].keys() == TOTALS
    assert row["usage"].keys() > TOTALS
    for part in ("byModel", "byProvider", "byAgent", "byChannel"):
        (one,) = everything[part]
        assert (one["count"], one["totals"]) == (3, payload["totals"])
    (day,) = everything["daily"]
    assert (day["messages"], day["toolCalls"], day["errors"]) == (5, 1, 0)
    assert everything["latency"]["count"] == 3
    assert everything["latency"]["minMs"] <= everything["latency"]["p95Ms"]
    assert series["sessionId"] == row["sessionId"]
    assert [point["cumulativeTokens"] for point in series["points"]][-1] == payload["totals"][
        "totalTokens"
    ]
    assert [log["role"] for log in logs] == [
        *("user", "assistant", "user", "assistant", "toolResult", "assistant")
    ]
    assert "[Tool: read]" in logs[3]["content"]
    assert logs[1]["tokens"] > 0


async def test_an_empty_gateway_has_every_part_too(wire: Wire) -> None:
    payload = await wire.call("sessions.usage")
    assert payload["sessions"] == []
    assert payload["aggregates"]["messages"]["total"] == 0
    assert payload["aggregates"]["tools"]["tools"] == []
    assert payload["aggregates"]["byProvider"] == []


async def test_what_was_before_a_reset_is_a_row_of_its_own_or_of_the_conversation(
    rig: Rig, wire: Wire
) -> None:
    await two_lives(rig)

    async def rows(**params: Any) -> dict[str, int]:
        payload = await wire.call("sessions.usage", RANGE | params)
        return {session["key"]: session["usage"]["totalTokens"] for session in payload["sessions"]}

    assert await rows() == {"agent:main:old": 30, "agent:main:main": 12}
    assert await rows(groupBy="family") == {"agent:main:main": 42}
    assert await rows(includeHistorical=True) == {"agent:main:main": 42}
    assert await rows(agentId="other") == {}
    series = await wire.call("sessions.usage.timeseries", {"key": "agent:main:old"})
    assert [(point["timestamp"], point["totalTokens"]) for point in series["points"]] == [(10, 30)]


async def test_the_range_is_as_long_as_its_name(rig: Rig, wire: Wire) -> None:
    await two_lives(rig)
    payload = await wire.call("sessions.usage", {"range": "7d", "endDate": "2026-11-26"})
    assert (payload["startDate"], payload["totals"]["totalTokens"]) == ("2026-11-20", 42)
    payload = await wire.call("sessions.usage", {"range": "7d", "endDate": "2026-11-27"})
    assert (payload["startDate"], payload["totals"]["totalTokens"]) == ("2026-11-21", 12)


async def test_many_calls_are_told_as_two_hundred_points(rig: Rig, wire: Wire) -> None:
    def write(unit: Unit) -> None:
        sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
        for at in range(1, 451):
            usage.book(unit, call(1, at=at))

    await rig.store.write(write)
    points = (await wire.call("sessions.usage.timeseries", {"key": "main"}))["points"]
    assert len(points) == 150
    assert (points[-1]["timestamp"], points[-1]["cumulativeTokens"]) == (450, 450)


async def test_the_usage_of_no_session_is_refused_by_name(wire: Wire) -> None:
    for method in ("sessions.usage.timeseries", "sessions.usage.logs"):
        error = (await wire.ask(method, {"key": "nobody"}))["error"]
        assert error["message"] == "No transcript found for session: nobody"


async def test_beyond_a_limit_sessions_are_told_by_their_sums_and_a_page_is_told_so(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_usage, "_MAX_DETAILS", 1)

    def write(unit: Unit) -> None:
        for number in range(52):
            booked_call = call(100 - number, day="2026-11-20", session=f"s{number}", at=number)
            usage.book(unit, booked_call)

    await rig.store.write(write)
    payload = await wire.call("sessions.usage", RANGE | {"limit": 100})
    assert payload["warnings"][0]["message"].startswith("2 sessions have only their sums.")
    assert [len(row["usage"]) > len(TOTALS) + 1 for row in payload["sessions"]] == [
        *[True] * 50,
        *[False] * 2,
    ]
    assert payload["sessions"][51]["usage"]["totalTokens"] == 49
    assert payload["totals"]["totalTokens"] == sum(range(49, 101))
    few = await wire.call("sessions.usage", RANGE | {"limit": 50})
    assert "warnings" not in few


async def test_no_question_about_usage_reads_a_transcript(rig: Rig, wire: Wire) -> None:
    await two_lives(rig)
    await rig.store.write(lambda unit: unit.execute("DROP TABLE entry"))
    payload = await wire.call("sessions.usage", RANGE)
    assert len(payload["sessions"]) == 2
