"""Section `heartbeat` of an agent: checks that it does by itself at an interval."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, field_validator

from skerry.config.base import OpenSection, Section
from skerry.config.session import SPAN, duration

_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


def interval(value: object) -> object:
    """Returns milliseconds of a text such as `30m`; a bare number is minutes."""
    text = str(value).strip()
    return duration(f"{text}m" if text.replace(".", "", 1).isdecimal() else value)


class ActiveHours(Section):
    """Hours of the day in which heartbeats run; past midnight where the end is before the start."""

    start: str | None = None
    """`HH:MM`; without a start and an end checks run at any hour."""
    end: str | None = None
    """`HH:MM`, or `24:00`."""
    timezone: str = "user"
    """`user` is `agents.defaults.userTimezone`, `local` that of this machine; else an IANA name."""

    @field_validator("start", "end")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None and not _CLOCK.fullmatch(value):
            raise ValueError("it is a time of the day such as 08:00")
        return value


class HeartbeatConfig(OpenSection):
    """Checks of HEARTBEAT.md that an agent does by itself."""

    enabled: bool = True
    """Enables the checks."""
    every: Annotated[int, BeforeValidator(interval), SPAN] = Field(default=1_800_000, ge=0)
    """Time between two checks, such as `30m`; a bare number is minutes, and 0 switches them off."""
    prompt: str | None = Field(default=None, min_length=1, max_length=20_000)
    """Text that starts a check, in place of the built-in one."""
    target: str = "last"
    """Receiver of what a check finds: `last` is the owner's last chat, `none` nobody; else the name
    of a platform, with `to`."""
    to: str | None = None
    """Id of the chat on the platform."""
    account_id: str | None = None
    """Account of the platform."""
    model: str | None = None
    """`provider/model` of the checks; without one that of the agent."""
    ack_max_chars: int = Field(default=30, ge=0, le=10_000)
    """Longest text beside HEARTBEAT_OK with which a reply is still an acknowledgement."""
    active_hours: ActiveHours = ActiveHours.model_construct()
    isolated_session: bool = True
    """Runs each check in a session of its own instead of the main conversation."""
    light_context: bool = True
    """Gives a check in a session of its own no file of the workspace but HEARTBEAT.md."""
    timeout_seconds: float | None = Field(default=None, ge=0)
    """Limit of a check; without one that of the agent's runs."""
    daily_cost: float | None = Field(default=1.0, gt=0, allow_inf_nan=False)
    """US dollars that the checks of an agent may cost in a day; null is no limit."""
    max_failures: int = Field(default=5, ge=1, le=1_000)
    """Failures in a row after which the checks stop, and the owner is told."""
