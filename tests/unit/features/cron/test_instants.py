"""Times of cron expressions: a simulated year in five zones, beside another library."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from skerry.features.cron.errors import ScheduleError
from skerry.features.cron.instants import Expression

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)
ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Africa/Casablanca",
    "America/Santiago",
)
EXPRESSIONS = (
    "30 2 * * *",
    "15,45 2 * * *",
    "*/30 0-4 * * *",
    "30 1 * * *",
    "0 3 * * 1-5",
    "0 0 * * *",
    "0 9 1 * *",
    "15 */6 * * *",
    "*/7 2 * * *",
    "10 2-4 * * *",
    "*/20 1-2 * * *",
    "0 1,2,3 * * *",
    "5 0 * * 0",
    "59 23 31 12 *",
    "0 12 13 * 5",
)


def ours(expression: str, zone: str) -> Iterator[datetime]:
    """Yields the times of the year that our module gives."""
    parsed, info, instant = Expression(expression), ZoneInfo(zone), BEGIN
    while (instant := parsed.after(instant, info)) < END:
        yield instant


def theirs(expression: str, zone: str) -> Iterator[datetime]:
    """Yields those of the other library; two times that a gap makes one are one."""
    before = None
    for local in CronSim(expression, BEGIN.astimezone(ZoneInfo(zone))):
        instant = local.astimezone(UTC)
        if instant >= END:
            return
        if instant != before:
            yield instant
        before = instant


@pytest.mark.parametrize(("zone", "expression"), list(product(ZONES, EXPRESSIONS)))
def test_a_year_has_the_times_that_another_library_gives(zone: str, expression: str) -> None:
    times = list(ours(expression, zone))
    assert times == list(theirs(expression, zone))
    assert all(one < other for one, other in pairwise(times))


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe"])
def test_a_daily_job_runs_once_a_day_also_where_clocks_change(zone: str) -> None:
    for expression in ("30 2 * * *", "30 1 * * *", "45 1 * * *"):
        days = [one.astimezone(ZoneInfo(zone)).date() for one in ours(expression, zone)]
        assert all(other - one == timedelta(days=1) for one, other in pairwise(days))


def test_a_time_in_a_gap_is_due_at_the_end_of_the_gap() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    due = Expression("30 2 * * *").after(datetime(2026, 3, 28, 12, tzinfo=UTC), berlin)
    assert due == datetime(2026, 3, 29, 1, tzinfo=UTC)  # 03:00, the first time after 01:59


def test_a_rhythm_goes_on_through_the_repeated_hour() -> None:
    howe, instant = ZoneInfo("Australia/Lord_Howe"), datetime(2026, 4, 4, 14, 29, tzinfo=UTC)
    times = []
    for _ in range(5):
        instant = Expression("*/30 * * * *").after(instant, howe)
        times.append(instant)
    assert {other - one for one, other in pairwise(times)} == {timedelta(minutes=30)}


def test_six_fields_begin_with_the_second() -> None:
    due = Expression("15 30 7 * * *").after(BEGIN, ZoneInfo("UTC"))
    assert due == datetime(2026, 1, 1, 7, 30, 15, tzinfo=UTC)


@given(
    st.integers(1_577_836_800, 1_893_456_000),
    st.sampled_from(ZONES),
    st.sampled_from(EXPRESSIONS),
)
def test_the_next_time_is_later_and_nothing_lies_between(
    start: int, zone: str, expression: str
) -> None:
    instant, info, parsed = (
        datetime.fromtimestamp(start, UTC),
        ZoneInfo(zone),
        Expression(expression),
    )
    due = parsed.after(instant, info)
    assert due > instant
    between = instant + (due - instant) / 2
    assert parsed.after(between, info) == due


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("* * *", "3 fields"),
        ("* * * * * * *", "7 fields"),
        ("61 * * * *", "out of range"),
        ("*/0 * * * *", "not acceptable"),
        ("0 0 30 2 *", "failed to find"),
        ("R R * * *", "random or hashed"),
        ("h(0-3) * * * *", "random or hashed"),
        ("0 0 * * " + "1," * 100, "cannot be used|fields"),
        ("", "0 fields"),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused_with_a_remedy(text: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason) as refused:
        Expression(text)
    assert refused.value.remedy


def test_the_top_of_the_hour_is_told_from_other_times() -> None:
    tops = ("0 * * * *", "0 */2 * * *", "0 0 * * * *", "@hourly")
    assert all(Expression(text).is_top_of_hour for text in tops)
    assert not any(Expression(text).is_top_of_hour for text in ("0 7 * * *", "5 * * * *"))
