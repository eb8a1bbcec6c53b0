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
        for one in (
            call(100, day="2026-11-20"),
            call(200, day="2026-11-20", model="n", agent="other", session="t"),
            call(2, day="2026-11-21", priced=False),
            call(7, day="2026-11-19"),
        ):
            usage.book(unit, one)

    await rig.store.write(write)


async def test_usage_is_told_by_day_and_costs_what_is_known(rig: Rig, wire: Wire) -> None:
    await used(rig)
    told = await wire.call("usage.cost", RANGE)
    assert [one["date"] for one in told["daily"]] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    first, second, third = told["daily"]
    assert (first["input"], first["inputCost"], first["totalCost"]) == (300, 30.0, 30.0)
    assert (second["totalTokens"], second["missingCostEntries"]) == (2, 1)
    assert (third["totalTokens"], third["missingCostEntries"]) == (0, 0)
    assert (told["days"], told["totals"]["totalTokens"]) == (3, 302)
    own = await wire.call("usage.cost", RANGE | {"agentId": "other"})
    assert own["totals"]["totalTokens"] == 200


async def test_without_dates_the_last_day_is_today_s(wire: Wire) -> None:
    told = await wire.call("usage.cost", {"days": 2})
    now = SystemClock().now_ms()
    assert told["daily"][-1]["date"] in {str(day(now, None)), str(day(now - 60_000, None))}
    assert len(told["daily"]) == 2


async def test_a_report_adds_up_by_what_is_asked(rig: Rig, wire: Wire) -> None:
    await used(rig)
    told = await wire.call("usage.report", RANGE)
    assert [(one["name"], one["calls"], one["unpriced"]) for one in told["rows"]] == [
        ("p/n", 1, 0),
        ("p/m", 2, 1),
    ]
    assert (told["by"], told["totals"]["calls"], told["budgets"]) == ("model", 3, [])
    told = await wire.call("usage.report", RANGE | {"by": "session"})
    assert [one["name"] for one in told["rows"]] == ["t", "agent:main:main"]
    assert not (await wire.ask("usage.report", {"by": "moon"}))["ok"]


async def test_sessions_are_told_the_dearest_first(rig: Rig, wire: Wire) -> None:
    await used(rig)
    told = await wire.call("sessions.usage", RANGE | {"limit": 10})
    assert [(one["key"], one["usage"]["totalTokens"]) for one in told["sessions"]] == [
        ("t", 200),
        ("agent:main:main", 102),
    ]
    assert told["totals"]["totalTokens"] == 302
    models = told["aggregates"]["byModel"]
    assert [(one["provider"], one["model"], one["count"]) for one in models] == [
        ("p", "n", 1),
        ("p", "m", 2),
    ]
    (only,) = (await wire.call("sessions.usage", RANGE | {"key": "agent:main:main"}))["sessions"]
    assert only["sessionId"] == "s"


@pytest.mark.parametrize("params", [{"startDate": "2026-13-01"}, {"days": 367}, {"endDate": "x"}])
async def test_no_day_of_a_calendar_is_refused(wire: Wire, params: dict[str, Any]) -> None:
    assert (await wire.ask("usage.cost", params))["error"]["code"] == "INVALID_REQUEST"


async def test_dates_the_wrong_way_round_are_no_days(wire: Wire) -> None:
    told = await wire.call("usage.cost", {"startDate": "2026-11-20", "endDate": "2026-11-01"})
    assert (told["days"], told["daily"]) == (0, [])
