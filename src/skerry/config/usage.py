"""Section `usage`: budgets of model calls, and the retention of their records."""

from functools import cached_property
from typing import Annotated

from pydantic import BeforeValidator, Field

from skerry.config.base import Section
from skerry.config.session import SPAN, duration
from skerry.infra.clock import DAY_MS


class Budget(Section):
    """Limits of usage per day; an unset limit does not apply."""

    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Cost in US dollars."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens of all kinds together."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """Share of the limits at which the owner is notified, and at which heartbeats, memory flushes
    and the checklist at the start are not run any more."""

    @cached_property
    def limits(self) -> bool:
        """Returns whether any limit is set."""
        return self.cost is not None or self.tokens is not None


class Budgets(Section):
    """Limits on the usage per day of the owner's time zone; above them runs are refused."""

    day: Budget = Budget.model_construct()
    """Budget of all agents together."""
    agents: dict[str, Budget] = Field(default_factory=dict)
    """Budgets of agents, by id."""

    @cached_property
    def set(self) -> bool:
        """Returns whether any budget is set."""
        return self.day.limits or bool(self.agents)


class UsageConfig(Section):
    """Budgets of model calls, and the retention of their records."""

    budgets: Budgets = Budgets.model_construct()
    keep_calls: Annotated[int, BeforeValidator(duration), SPAN] = Field(
        default=90 * DAY_MS, ge=DAY_MS
    )
    """Time for which the record of each call is kept, such as `90d`. Daily totals are kept for
    ever."""
