"""The next time of a schedule (pure except for the zone of the machine)."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from skerry.features.cron.errors import ScheduleError
from skerry.features.cron.instants import Expression
from skerry.features.cron.jobs import MIN_EVERY_MS, At, Cron, Every, Schedule
from skerry.infra.clock import host_zone

STAGGER_MS: Final = 300_000
"""Maximum delay of a job at the top of the hour, so that not all start at once."""
_MAX_DATE_MS: Final = 8_640_000_000_000_000
_expression = lru_cache(maxsize=512)(Expression)


@lru_cache(maxsize=64)
def zone(name: str | None) -> ZoneInfo:
    """Returns the zone of an IANA name; None means the machine's zone, or UTC without one.

    Raises:
        ScheduleError: no zone has the name.
    """
    try:
        return ZoneInfo(name or host_zone())
    except (KeyError, OSError, ValueError) as error:
        if name is None:
            return ZoneInfo("UTC")
        raise ScheduleError(
            f"Unknown time zone {name!r}.", "Pass an IANA name, such as Europe/Berlin or UTC."
        ) from error


def moment(text: str) -> int:
    """Returns the milliseconds since 1970 of an ISO 8601 time; UTC without a zone.

    Raises:
        ScheduleError: the text is not an ISO 8601 time.
    """
    try:
        at = datetime.fromisoformat(text.strip())
        instant = at if at.tzinfo else at.replace(tzinfo=UTC)
        return round(instant.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(
            f"The time {text[:64]!r} is not an ISO 8601 time.", "Example: 2026-11-24T07:00:00Z."
        ) from error


def stagger(schedule: Cron) -> int:
    """Returns the maximum delay of the schedule, in milliseconds."""
    if schedule.stagger_ms is not None:
        return schedule.stagger_ms
    return STAGGER_MS if _expression(schedule.expr).is_top_of_hour else 0


def delay(job_id: str, longest: int) -> int:
    """Returns the delay of a job in milliseconds: the same for each of its runs."""
    if longest <= 0:
        return 0
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4]) % longest


def checked(schedule: Schedule) -> None:
    """Checks a schedule.

    Raises:
        ScheduleError: the schedule is not valid.
    """
    match schedule:
        case At(at):
            moment(at)
        case Every(every_ms, anchor_ms):
            if not MIN_EVERY_MS <= every_ms <= _MAX_DATE_MS or (anchor_ms or 0) < 0:
                raise ScheduleError(
                    f"The interval {every_ms} ms is out of range.", "Pass at least 1000 ms."
                )
        case Cron(expr, tz, stagger_ms):
            _expression(expr)
            zone(tz)
            if stagger_ms is not None and not 0 <= stagger_ms <= 86_400_000:  # noqa: PLR2004 - a day
                raise ScheduleError(
                    f"The stagger {stagger_ms} ms is out of range.", "Pass at most one day."
                )


def next_time(schedule: Schedule, job_id: str, created_at: int, after: int) -> int | None:
    """Returns the first time after `after`, in milliseconds since 1970; or None.

    Raises:
        ScheduleError: the schedule is not valid.
    """
    match schedule:
        case At(at):
            time = moment(at)
            return time if time > after else None
        case Every(every_ms, anchor_ms):
            anchor = created_at if anchor_ms is None else anchor_ms
            if after < anchor:
                return anchor if anchor_ms is not None else anchor + every_ms
            return anchor + ((after - anchor) // every_ms + 1) * every_ms
        case Cron(expr, tz, _):
            late = delay(job_id, stagger(schedule))
            start = datetime.fromtimestamp((after - late) // 1000, UTC)
            due = _expression(expr).after(start, zone(tz))
            return round(due.timestamp() * 1000) + late


def preview(expr: str, tz: str | None, start: int, count: int) -> list[int]:
    """Returns the next due times of an expression, in milliseconds since 1970, without a delay.

    Raises:
        ScheduleError: the expression or the zone is not valid.
    """
    expression, times = _expression(expr), list[int]()
    instant, time_zone = datetime.fromtimestamp(start // 1000, UTC), zone(tz)
    for _ in range(count):
        instant = expression.after(instant, time_zone)
        times.append(round(instant.timestamp() * 1000))
    return times
