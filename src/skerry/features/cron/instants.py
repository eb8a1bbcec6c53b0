"""The instants at which a cron expression is due in a time zone (pure).

`croniter` computes wall times; this module maps them to instants. An expression with a fixed minute
and hour means a time of day: when the clocks skip it, it is due right after the gap; when an hour
is repeated, it is due only the first time. An expression whose minute or hour begins with `*` means
a rhythm: it is due whenever the wall clock shows one of its times, so twice in a repeated hour.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from skerry.features.cron.errors import ScheduleError

MAX_CHARS: Final = 200
"""Maximum length of an expression, in characters."""
ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CHOSEN: Final = re.compile(r"(^|,)[rh]($|[(/,])", re.IGNORECASE)
"""A random or hashed field, which the library would choose."""
_FIVE: Final = 5
_SIX: Final = 6
_YEARS: Final = 30
"""Years within which an expression must be due; 29 February on a given weekday needs 28."""
_STEP: Final = timedelta(days=7)
"""Step of the search for a change of a zone's offset."""
_SECOND: Final = timedelta(seconds=1)


class Expression:
    """A checked cron expression of five fields, or of six with the second first.

    Raises:
        ScheduleError: the text is not valid, or no time matches it.
    """

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        fields = ALIASES.get(self.text.lower(), self.text).split()
        if len(text) > MAX_CHARS or len(fields) not in {_FIVE, _SIX}:
            counted = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            raise ScheduleError(
                f"The cron expression {text[:MAX_CHARS]!r} has {counted}.",
                "Pass five (minute hour day month weekday), or six with the second first.",
            )
        if any(_CHOSEN.search(field) for field in fields):
            raise ScheduleError(
                f"The cron expression {self.text!r} has a random or hashed field.",
                "Pass numbers; the scheduler spreads jobs at the top of the hour.",
            )
        self._plain = " ".join(fields)
        self._seconds = len(fields) == _SIX
        minute, hour = fields[-5], fields[-4]
        self.is_rhythm = minute.startswith("*") or hour.startswith("*")
        self.is_top_of_hour = (
            minute == "0" and "*" in hour and (not self._seconds or fields[0] == "0")
        )
        try:
            self._after(datetime(2000, 1, 1))  # noqa: DTZ001 - a wall time
        except (CroniterError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise ScheduleError(
                f"The cron expression {self.text!r} is not valid: {error}.",
                "Example: 0 7 * * 1-5 is 07:00 from Monday to Friday.",
            ) from error

    def after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Returns the first due instant after `instant`, in UTC.

        Raises:
            ScheduleError: no instant within 30 years matches.
        """
        instant = instant.replace(microsecond=0)
        try:
            due = self._in_rhythm(instant, zone) if self.is_rhythm else self._fixed(instant, zone)
        except (CroniterError, ValueError, OverflowError) as error:
            raise ScheduleError(
                f"The cron expression {self.text!r} is never due after {instant:%Y-%m-%d}.",
                "Correct its day and month.",
            ) from error
        return due

    def _walls(self, wall: datetime) -> Iterator[datetime]:
        """Yields the wall times after `wall`, in order."""
        times = croniter(
            self._plain,
            wall,
            second_at_beginning=self._seconds,
            max_years_between_matches=_YEARS,
        )
        while True:
            yield times.get_next(datetime)

    def _after(self, wall: datetime) -> datetime:
        return next(self._walls(wall))

    def _fixed(self, instant: datetime, zone: ZoneInfo) -> datetime:
        walls = self._walls(_wall(instant, zone))
        while (due := _first(next(walls), zone)) <= instant:
            pass  # in a repeated hour, it was due the first time
        return due

    def _in_rhythm(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Returns the first instant whose wall time matches; tries each offset in order."""
        while True:
            offset = _offset(instant, zone)
            due = (self._after(_wall(instant, zone)) - offset).replace(tzinfo=UTC)
            change = _change(instant, due, zone)
            if change is None:
                return due
            if self._fits(_wall(change, zone)):
                return change
            instant = change

    def _fits(self, wall: datetime) -> bool:
        return self._after(wall - _SECOND) == wall


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    """Returns the wall time in the zone."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _first(wall: datetime, zone: ZoneInfo) -> datetime:
    """Returns the first instant with the wall time, else the end of its gap."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _wall(instant, zone) == wall:
        return instant
    # In a gap, fold=0 uses the earlier offset: the instant is after the change.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(before, instant, zone) or instant


def _change(start: datetime, end: datetime, zone: ZoneInfo) -> datetime | None:
    """Returns the first instant in (start, end] with another offset than `start`, to the second."""
    offset, low = _offset(start, zone), start
    while low < end:
        high = min(low + _STEP, end)
        if _offset(high, zone) == offset:
            low = high
            continue
        while high - low > _SECOND:
            middle = low + (high - low) / 2
            middle = middle.replace(microsecond=0)
            if middle <= low:
                break
            if _offset(middle, zone) == offset:
                low = middle
            else:
                high = middle
        return high.replace(microsecond=0)
    return None
