"""Section `heartbeat` of an agent: checks that the agent does periodically."""

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
    """Hours of the day in which checks run; past midnight if the end is before the start."""

    start: str | None = None
    """`HH:MM`; when start and end are unset, checks run at any hour."""
    end: str | None = None
    """`HH:MM`, or `24:00`."""
    timezone: str = "user"
    """`user` is `agents.defaults.userTimezone`, `local` is that of this machine; or an IANA
    name."""

    @field_validator("start", "end")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None and not _CLOCK.fullmatch(value):
            raise ValueError("it must be a time of the day such as 08:00")
        return value


class HeartbeatConfig(OpenSection):
    """Periodic checks of HEARTBEAT.md by an agent."""

    enabled: bool = True
    """Enables the checks."""
    every: Annotated[int, BeforeValidator(interval), SPAN] = Field(default=1_800_000, ge=0)
    """Time between two checks, such as `30m`; a bare number is minutes, and 0 switches them off."""
    prompt: str | None = Field(default=None, min_length=1, max_length=20_000)
    """Prompt that starts a check, instead of the built-in one."""
    target: str = "last"
    """Chat that receives the result of a check: `last` is the owner's last chat, `none` is none;
    otherwise the name of a platform, together with `to`."""
    to: str | None = None
    """Id of the chat on the platform."""
    account_id: str | None = None
    """Account of the platform."""
    model: str | None = None
    """`provider/model` of the checks; when unset, that of the agent."""
    ack_max_chars: int = Field(default=30, ge=0, le=10_000)
    """Maximum characters besides HEARTBEAT_OK in a reply that counts as an acknowledgement."""
    active_hours: ActiveHours = ActiveHours.model_construct()
    isolated_session: bool = True
    """Runs each check in a separate session instead of the main conversation."""
    light_context: bool = True
    """Leaves all workspace files except HEARTBEAT.md out of the prompt of a check in a separate
    session."""
    timeout_seconds: float | None = Field(default=None, ge=0)
    """Time limit of a check in seconds; when unset, that of the agent's runs."""
    daily_cost: float | None = Field(default=1.0, gt=0, allow_inf_nan=False)
    """US dollars that the checks of an agent may cost per day; null is no limit."""
    max_failures: int = Field(default=5, ge=1, le=1_000)
    """Consecutive failures after which the checks stop and the owner is notified."""
