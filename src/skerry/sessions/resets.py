"""Automatic resets of conversations (pure), checked when a message arrives.

Source: openclaw-behaviour 2.3; only what a person says keeps a session fresh.
"""

from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from msgspec import Struct

from skerry.config.session import ResetConfig, ResetMode, SessionConfig
from skerry.infra.clock import DAY_MS
from skerry.model.ids import SessionKey, SessionKind

AT_HOUR: Final = 4
IDLE_MINUTES: Final = 60
_MINUTE_MS: Final = 60_000
_WITHOUT_PEOPLE: Final = frozenset(
    {SessionKind.CRON, SessionKind.HOOK, SessionKind.NODE, SessionKind.SUBAGENT}
)


class Expiry(StrEnum):
    """Limit that a session has passed."""

    DAILY = "daily"
    IDLE = "idle"


class Limits(Struct, frozen=True):
    """Lifetime of a session; None is no limit of that kind."""

    at_hour: int | None = None
    """0 to 23, local time."""
    idle_minutes: int | None = None

    def passed(self, spoke: int, now: int, zone: tzinfo | None = None) -> Expiry | None:
        """Return which limit came first after a person last spoke; None while there was none.

        Args:
            spoke: Milliseconds since 1970; 0 when nobody did, and then nothing can expire.
            now: When the next message arrives.
            zone: That of the gateway's machine, which None is.

        """
        if not spoke:
            return None
        ends: list[tuple[int, Expiry]] = []
        if self.idle_minutes is not None and now > spoke + self.idle_minutes * _MINUTE_MS:
            ends.append((spoke + self.idle_minutes * _MINUTE_MS, Expiry.IDLE))
        if self.at_hour is not None and spoke < (end := boundary(now, self.at_hour, zone)):
            # What counts is the first boundary since, not the last.
            ends.append((min(end, boundary(spoke + DAY_MS, self.at_hour, zone)), Expiry.DAILY))
        return min(ends)[1] if ends else None


def limits(config: SessionConfig, key: SessionKey, channel: str) -> Limits:
    """Returns the limits of a conversation for a message over `channel`."""
    if key.kind in _WITHOUT_PEOPLE:
        return Limits()
    for name, own in reversed(config.reset_by_channel.items()):
        if name.lower() == channel.lower():
            return _limits(own)
    kinds = {"dm": "direct"}
    by_type = {kinds.get(kind, kind): one for kind, one in config.reset_by_type.items()}
    if config.reset is None and not by_type and config.idle_minutes is not None:
        return Limits(idle_minutes=config.idle_minutes)
    found = (by_type.get(kind_of(key)) if by_type else None, config.reset)
    return _limits(*(one for one in found if one is not None))


def kind_of(key: SessionKey) -> str:
    """Return `thread`, `group` or `direct`."""
    if {"thread", "topic"} & set(key.scope[1:]):
        return "thread"
    return "group" if key.kind in {SessionKind.GROUP, SessionKind.CHANNEL} else "direct"


def boundary(now: int, hour: int, zone: tzinfo | None = None) -> int:
    """Return the last time at or before `now` at which it was `hour` o'clock, in milliseconds.

    Where clocks are put forward over that hour it is the moment at which they are; where the hour
    comes twice it is the first.
    """
    here = datetime.fromtimestamp(now / 1000, zone).replace(
        hour=hour, minute=0, second=0, microsecond=0, fold=0
    )
    while (at := int(here.timestamp() * 1000)) > now:
        here -= timedelta(days=1)
    return at


def _limits(*said: ResetConfig) -> Limits:
    """Combines the settings, the first value of each winning; by default the day ends it."""
    mode = next((one.mode for one in said if one.mode), ResetMode.DAILY)
    hour = next((one.at_hour for one in said if one.at_hour is not None), None)
    idle = next((one.idle_minutes for one in said if one.idle_minutes), None)
    match mode:
        case ResetMode.NONE:
            return Limits()
        case ResetMode.IDLE:
            return Limits(idle_minutes=idle or IDLE_MINUTES)
        case ResetMode.DAILY:
            return Limits(AT_HOUR if hour is None else hour, idle)
