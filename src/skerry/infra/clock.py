"""The clock, through which the wall time is read, and the days of a time zone."""

import os
import time
from datetime import UTC, date, datetime, tzinfo
from datetime import time as clock
from pathlib import Path
from typing import Final, Protocol
from zoneinfo import ZoneInfo

DAY_MS: Final = 86_400_000


class Clock(Protocol):
    """Gives the time."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, UTC."""
        ...


def iso(milliseconds: int) -> str:
    """Returns the text of a time: `2026-11-21T20:45:40.114Z`."""
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
    """Returns the date at `now_ms`; `zone` is an IANA name, None the zone of this machine."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(named(zone)).date()


def begin(day: date, zone: str | None) -> int:
    """Returns when the day begins there, in ms since 1970; `zone` as of `day`.

    Raises:
        OverflowError, ValueError: it is too far from today for this machine's clock.
    """
    midnight = datetime.combine(day, clock.min, named(zone))
    return int(midnight.timestamp() * 1000)  # without a zone it is this machine's


def named(zone: str | None) -> tzinfo | None:
    """Returns the zone of an IANA name; None is the zone of this machine."""
    if zone is None:
        return None
    return ZoneInfo(zone)


class Calendar:
    """The day of a time, computed once a minute: days begin at full minutes."""

    def __init__(self) -> None:
        self._known: tuple[int, str | None, date] | None = None

    def day(self, now_ms: int, zone: str | None) -> date:
        """Returns the date of a time in a zone, as the function `day`; caches the last minute."""
        minute, cached = now_ms // 60_000, self._known
        if cached is None or cached[0] != minute or cached[1] != zone:
            cached = self._known = minute, zone, day(now_ms, zone)
        return cached[2]


def host_zone() -> str:
    """Returns the IANA name of this machine's zone, or where it has none the zone's short name."""
    named = os.environ.get("TZ", "").lstrip(":")
    if not named:
        try:
            named = os.readlink(_LINK).partition(_DIRECTORY)[2]  # noqa: PTH115 - text
        except OSError:
            named = ""
    return named or time.tzname[0]
