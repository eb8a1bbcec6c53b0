"""Tests for the day that it is for a person."""

from datetime import UTC, datetime

import pytest

from skerry.infra.clock import Calendar, day

ZONES = (None, "UTC", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("zone", ZONES)
def test_a_calendar_says_what_the_clock_says_to_the_millisecond(zone: str | None) -> None:
    calendar = Calendar()
    for hour in range(48):
        for minute in ("00", "15", "30", "45"):
            start = at(f"2026-03-0{1 + hour // 24}T{hour % 24:02}:{minute}")
            for now in (start - 1, start, start + 59_999):
                assert calendar.day(now, zone) == day(now, zone)


def test_a_calendar_follows_a_change_of_the_zone_within_the_minute() -> None:
    calendar, now = Calendar(), at("2026-03-01T23:30")
    assert str(calendar.day(now, "UTC")) == "2026-03-01"
    assert str(calendar.day(now, "Europe/Berlin")) == "2026-03-02"
