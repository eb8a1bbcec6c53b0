"""Expiry of sessions, in every time zone, by type and by channel."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.session import SessionConfig
from skerry.model.ids import SessionKey
from skerry.sessions.session_choice import Expiry, SessionLimits, boundary, kind_of, limits

HOUR = 3_600_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Pacific/Apia",  # left out 30 December 2011
    "America/St_Johns",
    "Africa/Casablanca",
    "Antarctica/Troll",  # two hours
)


def at(text: str, zone: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def key(scope: str) -> SessionKey:
    return SessionKey.parse(f"agent:main:{scope}")


moments = st.integers(at("2005-01-01", "UTC"), at("2037-01-01", "UTC"))
hours = st.integers(0, 23)
zones = st.sampled_from(ZONES).map(ZoneInfo)


@pytest.mark.requirement("reset-daily-4am")
@given(moments, hours, zones)
def test_the_boundary_is_the_last_time_that_it_was_that_hour(
    now: int, hour: int, zone: ZoneInfo
) -> None:
    found = boundary(now, hour, zone)
    assert found <= now
    local = datetime.fromtimestamp(found / 1000, zone)
    before = datetime.fromtimestamp((found - 1) / 1000, zone)
    assert (local.hour, local.minute) == (hour, 0) or before.utcoffset() != local.utcoffset()


@given(moments, st.integers(0, 3 * 24 * HOUR), hours, zones)
def test_the_boundary_never_goes_back(now: int, later: int, hour: int, zone: ZoneInfo) -> None:
    assert boundary(now, hour, zone) <= boundary(now + later, hour, zone)


@given(moments, hours, zones)
def test_a_day_has_one_boundary(now: int, hour: int, zone: ZoneInfo) -> None:
    first = boundary(now, hour, zone)
    assert boundary(first, hour, zone) == first
    assert first - boundary(first - 1, hour, zone) <= 49 * HOUR
    assert first - boundary(first - 1, hour, zone) >= 22 * HOUR


@pytest.mark.parametrize(
    ("now", "hour", "zone", "expected"),
    [
        ("2026-05-04 12:00", 4, "Europe/Berlin", "2026-05-04 04:00"),
        ("2026-05-04 04:00", 4, "Europe/Berlin", "2026-05-04 04:00"),
        ("2026-05-04 03:59", 4, "Europe/Berlin", "2026-05-03 04:00"),
        ("2026-03-29 03:30", 4, "Europe/Berlin", "2026-03-28 04:00"),  # a day of 23 hours
        ("2026-03-29 12:00", 2, "Europe/Berlin", "2026-03-29 03:00"),  # the hour is skipped
        ("2026-10-25 12:00", 2, "Europe/Berlin", "2026-10-25 02:00"),  # the hour occurs twice
        ("2011-12-31 02:00", 4, "Pacific/Apia", "2011-12-29 04:00"),  # the day is skipped
    ],
)
def test_known_boundaries(now: str, hour: int, zone: str, expected: str) -> None:
    assert boundary(at(now, zone), hour, ZoneInfo(zone)) == at(expected, zone)


def test_an_hour_that_comes_twice_is_a_boundary_once() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = at("2026-10-25 02:00", "Europe/Berlin")
    second = first + HOUR
    assert datetime.fromtimestamp(second / 1000, zone).hour == 2
    assert boundary(second + HOUR // 2, 2, zone) == first


def test_without_a_zone_it_is_that_of_the_machine() -> None:
    noon = datetime.fromisoformat("2026-05-04 12:00").timestamp()
    four = datetime.fromisoformat("2026-05-04 04:00").timestamp()
    assert boundary(int(noon * 1000), 4) == int(four * 1000)


@pytest.mark.requirement("reset-daily-4am")
def test_what_holds_without_a_word_in_the_configuration() -> None:
    assert limits(SessionConfig(), key("main"), "webchat") == SessionLimits(at_hour=4)


CASES: list[tuple[dict[str, Any], str, str, SessionLimits]] = [
    ({"reset": {"mode": "idle"}}, "main", "webchat", SessionLimits(None, 60)),
    ({"reset": {"mode": "daily", "atHour": 0}}, "main", "webchat", SessionLimits(0, None)),
    ({"reset": {"idleMinutes": 90}}, "main", "webchat", SessionLimits(4, 90)),
    ({"reset": {"mode": "none", "idleMinutes": 90}}, "main", "webchat", SessionLimits()),
    ({"idleMinutes": 30}, "main", "webchat", SessionLimits(None, 30)),
    ({"idleMinutes": 30, "reset": {"atHour": 5}}, "main", "webchat", SessionLimits(5, None)),
    (
        {"reset": {"atHour": 5}, "resetByType": {"group": {"idleMinutes": 120}}},
        "telegram:group:1",
        "telegram",
        SessionLimits(5, 120),
    ),
    (
        {"resetByType": {"dm": {"mode": "idle", "idleMinutes": 240}}},
        "telegram:direct:1",
        "telegram",
        SessionLimits(None, 240),
    ),
    ({"resetByType": {"thread": {"mode": "none"}}}, "x:group:1:thread:2", "x", SessionLimits()),
    ({"resetByType": {"thread": {"mode": "none"}}}, "x:group:1", "x", SessionLimits(4, None)),
    (
        {
            "reset": {"idleMinutes": 5},
            "resetByType": {"direct": {"mode": "none"}},
            "resetByChannel": {"Discord": {"mode": "idle", "idleMinutes": 10080}},
        },
        "discord:direct:1",
        "discord",
        SessionLimits(None, 10080),
    ),
    ({"resetByChannel": {"discord": {"mode": "none"}}}, "main", "webchat", SessionLimits(4, None)),
    ({}, "cron:nightly", "webchat", SessionLimits()),
    ({}, "subagent:1", "webchat", SessionLimits()),
]


@pytest.mark.requirement("reset-by-type")
@pytest.mark.requirement("reset-by-channel")
@pytest.mark.parametrize(("session", "scope", "channel", "expected"), CASES)
def test_what_the_configuration_says_of_a_conversation(
    session: dict[str, Any], scope: str, channel: str, expected: SessionLimits
) -> None:
    assert limits(SessionConfig.model_validate(session), key(scope), channel) == expected


@pytest.mark.parametrize(
    ("scope", "kind"),
    [
        ("main", "direct"),
        ("telegram:direct:1", "direct"),
        ("telegram:group:1", "group"),
        ("slack:channel:1", "group"),
        ("slack:channel:1:thread:9", "thread"),
        ("telegram:group:1:topic:9", "thread"),
    ],
)
def test_the_type_of_a_conversation(scope: str, kind: str) -> None:
    assert kind_of(key(scope)) == kind


@pytest.mark.requirement("reset-idle")
def test_the_limit_that_comes_first_counts() -> None:
    spoke = at("2026-05-04 03:30", "UTC")
    two_limits = SessionLimits(4, 60)
    assert two_limits.passed(spoke, spoke + HOUR // 2 - 1, UTC) is None
    assert two_limits.passed(spoke, spoke + HOUR // 2, UTC) is Expiry.DAILY
    assert two_limits.passed(spoke, spoke + 20 * HOUR, UTC) is Expiry.DAILY
    assert two_limits.passed(spoke + HOUR, spoke + 20 * HOUR, UTC) is Expiry.IDLE
    assert SessionLimits(None, 60).passed(spoke, spoke + HOUR, UTC) is None
    assert SessionLimits(None, 60).passed(spoke, spoke + HOUR + 1, UTC) is Expiry.IDLE


def test_nothing_ends_where_nobody_spoke_or_the_clock_was_set_back() -> None:
    now = at("2026-05-04 12:00", "UTC")
    assert SessionLimits(4, 1).passed(0, now, UTC) is None
    assert SessionLimits(4, 1).passed(now + 48 * HOUR, now, UTC) is None
    assert SessionLimits().passed(1, now, UTC) is None
