"""The next time of a schedule: at, every, cron with its delay, and the zones."""

import pytest

from skerry.features.cron.errors import ScheduleError
from skerry.features.cron.jobs import At, Cron, Every, Schedule
from skerry.features.cron.schedule import (
    STAGGER_MS,
    checked,
    delay,
    moment,
    next_time,
    preview,
    stagger,
    zone,
)

NOON = moment("2026-11-24T12:00:00Z")
HOUR = 3_600_000


def after(schedule: Schedule, now: int = NOON, job: str = "a") -> int | None:
    return next_time(schedule, job, NOON, now)


def test_a_time_is_due_once() -> None:
    assert after(At("2026-11-24T13:00:00")) == NOON + HOUR  # without a zone it is UTC
    assert after(At("2026-11-24T13:00:00+01:00")) is None


def test_an_interval_counts_from_its_anchor_whatever_was_missed() -> None:
    every = Every(HOUR, NOON)
    assert after(every) == NOON + HOUR
    assert after(every, NOON + HOUR) == NOON + 2 * HOUR
    assert after(every, NOON + 50 * HOUR + 7) == NOON + 51 * HOUR
    assert after(every, NOON - 9 * HOUR) == NOON


def test_jobs_of_the_top_of_the_hour_are_spread_each_by_its_own_delay() -> None:
    hourly = Cron("0 * * * *", "UTC")
    times = {after(hourly, job=f"job-{number}") for number in range(50)}
    assert len(times) > 40
    assert all(time is not None and 0 <= time - NOON < HOUR + STAGGER_MS for time in times)
    first = after(hourly, job="a")
    assert first is not None
    assert first - delay("a", STAGGER_MS) in {NOON, NOON + HOUR}
    second = after(hourly, first, job="a")
    assert second == first + HOUR


def test_an_exact_job_and_one_of_a_fixed_hour_have_no_delay() -> None:
    assert after(Cron("0 * * * *", "UTC", 0)) == NOON + HOUR
    assert stagger(Cron("0 7 * * *", "UTC")) == 0
    assert stagger(Cron("0 7 * * *", "UTC", 60_000)) == 60_000


def test_a_preview_has_no_delay() -> None:
    assert preview("0 * * * *", "UTC", NOON, 2) == [NOON + HOUR, NOON + 2 * HOUR]


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(At("tomorrow"), id="at"),
        pytest.param(Every(999), id="every"),
        pytest.param(Cron("0 7 * * *", "Mars/Base"), id="zone"),
        pytest.param(Cron("0 7 * * *", "../etc/passwd"), id="path"),
        pytest.param(Cron("0 7 * * *", None, 86_400_001), id="stagger"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_refused_with_a_remedy(schedule: Schedule) -> None:
    with pytest.raises(ScheduleError) as refused:
        checked(schedule)
    assert refused.value.remedy


def test_without_a_name_the_zone_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    zone.cache_clear()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert str(zone(None)) == "Asia/Tokyo"
    zone.cache_clear()
