"""Section `limits`: limits on the usage of a run and of a day; a run that exceeds one ends."""

from pydantic import Field

from skerry.config.base import Section


class RunLimits(Section):
    """Limits of one run; 0 is no limit."""

    model_calls: int = Field(default=200, ge=0)
    """Model calls, including failed calls and those of summaries."""
    tool_calls: int = Field(default=500, ge=0)
    """Tool calls."""
    tokens: int = Field(default=20_000_000, ge=0)
    """Tokens of all kinds together, including those read from a cache."""
    cost: float = Field(default=25.0, ge=0, allow_inf_nan=False)
    """Cost in US dollars; calls of models without a known price count as 0."""


class DayLimits(Section):
    """Limits of an agent per day of the owner's time zone; 0 is no limit."""

    model_calls: int = Field(default=5_000, ge=0)
    """Model calls, including failed calls and those of summaries."""
    tool_calls: int = Field(default=20_000, ge=0)
    """Tool calls."""
    tokens: int = Field(default=500_000_000, ge=0)
    """Tokens of all kinds together, including those read from a cache."""
    cost: float = Field(default=100.0, ge=0, allow_inf_nan=False)
    """Cost in US dollars; calls of models without a known price count as 0."""


class LimitsConfig(Section):
    """Usage limits of a run and of a day of an agent."""

    run: RunLimits = RunLimits.model_construct()
    """One run."""
    day: DayLimits = DayLimits.model_construct()
    """One day."""
