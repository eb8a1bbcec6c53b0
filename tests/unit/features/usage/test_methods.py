"""What was used, over the wire."""

from typing import Any

import pytest

from skerry.infra.clock import SystemClock, day
from skerry.model.ids import SessionId, SessionKey
from skerry.store import Unit, sessions, usage
from tests.support.gateway import Rig
from tests.support.ledger import call
from tests.support.wire import Wire

RANGE = {"startDate": "2026-11-20", "endDate": "2026-11-22"}


async def used(rig: Rig) -> None:
    def write(unit: Unit) -> None:
        sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
        for booked_call in (
            call(100, day="2026-11-20"),
            call(200, day="2026-11-20", model="n", agent="other", session="t"),
            call(2, day="2026-11-21", priced=False),
            call(7, day="2026-11-19"),
        ):
            usage.book(unit, booked_call)

    await rig.store.write(write)


async def test_usage_is_told_by_day_and_costs_what_is_known(rig: Rig, wire: Wire) -> None:
    await used(rig)
    payload = await wire.call("usage.cost", RANGE)
    assert [row["date"] for row in payload["daily"]] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    first, second, third = payload["daily"]
    assert (first["input"], first["inputCost"], first["totalCost"]) == (300, 30.0, 30.0)
    assert (second["totalTokens"], second["missingCostEntries"]) == (2, 1)
    assert (third["totalTokens"], third["missingCostEntries"]) == (0, 0)
    assert (payload["days"], payload["totals"]["totalTokens"]) == (3, 302)
    own = await wire.call("usage.cost", RANGE | {"agentId": "other"})
    assert own["totals"]["totalTokens"] == 200


async def test_without_dates_the_last_day_is_today_s(wire: Wire) -> None:
    payload = await wire.call("usage.cost", {"days": 2})
    now = SystemClock().now_ms()
    assert payload["daily"][-1]["date"] in {str(day(now, None)), str(day(now - 60_000, None))}
    assert len(payload["daily"]) == 2


async def test_a_report_adds_up_by_what_is_asked(rig: Rig, wire: Wire) -> None:
    await used(rig)
    payload = await wire.call("usage.report", RANGE)
    assert [(row["name"], row["calls"], row["unpriced"]) for row in payload["rows"]] == [
        ("p/n", 1, 0),
        ("p/m", 2, 1),
    ]
    assert (payload["by"], payload["totals"]["calls"], payload["budgets"]) == ("model", 3, [])
    payload = await wire.call("usage.report", RANGE | {"by": "session"})
    assert [row["name"] for row in payload["rows"]] == ["t", "agent:main:main"]
    assert not (await wire.ask("usage.report", {"by": "moon"}))["ok"]


async def test_sessions_are_told_the_dearest_first(rig: Rig, wire: Wire) -> None:
    await used(rig)
    payload = await wire.call("sessions.usage", RANGE | {"limit": 10})
    assert [
        (session["key"], session["usage"]["totalTokens"]) for session in payload["sessions"]
    ] == [
        ("t", 200),
        ("agent:main:main", 102),
    ]
    assert payload["totals"]["totalTokens"] == 302
    models = payload["aggregates"]["byModel"]
    assert [(model["provider"], model["model"], model["count"]) for model in models] == [
        ("p", "n", 1),
        ("p", "m", 2),
    ]
    (only,) = (await wire.call("sessions.usage", RANGE | {"key": "agent:main:main"}))["sessions"]
    assert only["sessionId"] == "s"


@pytest.mark.parametrize("params", [{"startDate": "2026-13-01"}, {"days": 367}, {"endDate": "x"}])
async def test_no_day_of_a_calendar_is_refused(wire: Wire, params: dict[str, Any]) -> None:
    assert (await wire.ask("usage.cost", params))["error"]["code"] == "INVALID_REQUEST"


async def test_dates_the_wrong_way_round_are_no_days(wire: Wire) -> None:
    payload = await wire.call("usage.cost", {"startDate": "2026-11-20", "endDate": "2026-11-01"})
    assert (payload["days"], payload["daily"]) == (0, [])
