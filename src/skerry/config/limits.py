"""Section `limits`: what a run and a day of an agent may use before they end by themselves."""

from pydantic import Field

from skerry.config.base import Section


class RunLimits(Section):
    """Limits of one run; 0 is no limit."""

    model_calls: int = Field(default=200, ge=0)
    """Calls of models, those of summaries and failed ones included."""
    tool_calls: int = Field(default=500, ge=0)
    """Calls of tools."""
    tokens: int = Field(default=20_000_000, ge=0)
    """Tokens of all kinds together, including those read from a cache."""
    cost: float = Field(default=25.0, ge=0, allow_inf_nan=False)
    """US dollars; calls without a known price cost nothing here."""


class DayLimits(Section):
    """Limits of an agent per day of the owner's time zone; 0 is no limit."""

    model_calls: int = Field(default=5_000, ge=0)
    """Calls of models, those of summaries and failed ones included."""
    tool_calls: int = Field(default=20_000, ge=0)
    """Calls of tools."""
    tokens: int = Field(default=500_000_000, ge=0)
    """Tokens of all kinds together, including those read from a cache."""
    cost: float = Field(default=100.0, ge=0, allow_inf_nan=False)
    """US dollars; calls without a known price cost nothing here."""


class LimitsConfig(Section):
    """Usage limits of a run and of a day of an agent."""

    run: RunLimits = RunLimits.model_construct()
    """One run."""
    day: DayLimits = DayLimits.model_construct()
    """One day."""
