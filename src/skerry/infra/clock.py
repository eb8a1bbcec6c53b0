"""The injected clock, and days in a time zone."""

import os
import time
from datetime import UTC, date, datetime, tzinfo
from datetime import time as clock
from pathlib import Path
from typing import Final, Protocol
from zoneinfo import ZoneInfo

DAY_MS: Final = 86_400_000


class Clock(Protocol):
    """Source of the wall time; a test sets it."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, UTC."""
        ...


def iso(milliseconds: int) -> str:
    """Returns milliseconds since 1970 as ISO 8601 in UTC: `2026-11-21T20:45:40.114Z`."""
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


_LINK: Final = Path("/etc/localtime")
_DIRECTORY: Final = "/zoneinfo/"


def day(now_ms: int, zone: str | None) -> date:
    """Returns the date at `now_ms` in the zone `zone`; None is the zone of this machine.

    Raises:
        ZoneInfoNotFoundError: `zone` is not an IANA name.
    """
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(named(zone)).date()


def begin(day: date, zone: str | None) -> int:
    """Returns the begin of `day` in the zone `zone`, in milliseconds since 1970.

    Raises:
        OverflowError, ValueError: the system cannot represent the time.
        ZoneInfoNotFoundError: `zone` is not an IANA name.
    """
    midnight = datetime.combine(day, clock.min, named(zone))
    return int(midnight.timestamp() * 1000)  # a naive time is in the zone of this machine


def named(zone: str | None) -> tzinfo | None:
    """Returns the zone of an IANA name; None for the zone of this machine.

    Raises:
        ZoneInfoNotFoundError: there is no such zone.
    """
    if zone is None:
        return None
    return ZoneInfo(zone)


class Calendar:
    """Computes days with a cache of the last minute: days begin at full minutes."""

    def __init__(self) -> None:
        self._cached: tuple[int, str | None, date] | None = None

    def day(self, now_ms: int, zone: str | None) -> date:
        """Returns the date at `now_ms`, as the function `day` does."""
        minute, cached = now_ms // 60_000, self._cached
        if cached is None or cached[0] != minute or cached[1] != zone:
            cached = self._cached = minute, zone, day(now_ms, zone)
        return cached[2]


def host_zone() -> str:
    """Returns the IANA name of this machine's zone, or its short name where the name is unknown."""
    named = os.environ.get("TZ", "").lstrip(":")
    if not named:
        try:
            named = os.readlink(_LINK).partition(_DIRECTORY)[2]  # noqa: PTH115 - text
        except OSError:
            named = ""
    return named or time.tzname[0]
