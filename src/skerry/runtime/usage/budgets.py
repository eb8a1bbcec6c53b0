"""State of budgets for a day's usage: within, warned, or used up (pure)."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from enum import IntEnum
from typing import Final

from msgspec import Struct

from skerry.config.usage import Budget, Budgets
from skerry.model.run import Purpose
from skerry.store.usage import Sums, total

BACKGROUND: Final = frozenset({Purpose.FLUSH, Purpose.BOOT, Purpose.HEARTBEAT})
"""Purposes of runs without a waiting person: they stop at the warning, to save the rest."""
DAY: Final = "day"
"""Name of the budget of all agents together."""


class BudgetLevel(IntEnum):
    """State of a budget."""

    OK = 0
    WARNED = 1
    STOPPED = 2


class BudgetWarning(Struct, frozen=True):
    """Warning to the owner, once a day; `names` are the notices of its budgets."""

    text: str
    names: tuple[str, ...]
    day: str


class BudgetState(Struct, frozen=True):
    """One budget on one day."""

    name: str
    """`day`, or `agents.<id>`."""
    budget: Budget
    used: Sums

    @property
    def share(self) -> float:
        """Returns the used part of the tighter limit; 1 means all of it."""
        cost, tokens = self.budget.cost, self.budget.tokens
        return max(
            self.used.cost / cost if cost else 0.0, self.used.tokens / tokens if tokens else 0.0
        )

    @property
    def level(self) -> BudgetLevel:
        """Returns the state of the budget."""
        if self.share >= 1:
            return BudgetLevel.STOPPED
        return BudgetLevel.WARNED if self.share >= self.budget.warn_at else BudgetLevel.OK

    @property
    def blind(self) -> int:
        """Returns the number of today's calls without a known price or count."""
        return self.used.uncounted + (self.used.unpriced if self.budget.cost is not None else 0)

    @property
    def notice(self) -> str:
        """Returns the name under which today's notice to the owner is recorded.

        The notice about uncounted calls has a separate name, so that the warning can still follow.
        """
        return self.name if self.level is not BudgetLevel.OK else f"{self.name} not counted"

    @property
    def path(self) -> str:
        """Returns the path of the budget in the configuration."""
        return f"usage.budgets.{self.name}"

    def refuses(self, purpose: Purpose) -> bool:
        """Returns whether a run with this purpose may not begin."""
        return self.level >= (BudgetLevel.WARNED if purpose in BACKGROUND else BudgetLevel.STOPPED)

    def summary(self) -> str:
        """Returns the usage as text for people: `$1.70 of $2.00 (85 %)`."""
        parts = []
        if self.budget.cost is not None:
            digits = 2 if self.budget.cost >= 1 else 4  # a small one would read as $0.00
            parts.append(f"${self.used.cost:.{digits}f} of ${self.budget.cost:.{digits}f}")
        if self.budget.tokens is not None:
            parts.append(f"{self.used.tokens:,} of {self.budget.tokens:,} tokens")
        blind = ""
        if self.blind:
            calls = f"{self.blind} call" + ("s" if self.blind > 1 else "")
            blind = f"; {calls} without a known price or count not included"
        return f"{' and '.join(parts)} ({self.share:.0%}{blind})"


def budget_states(
    budgets: Budgets, used: Mapping[str, Sums], agent: str | None = None
) -> list[BudgetState]:
    """Returns the budgets for an agent's runs, or all; `used` has the day's usage by agent."""
    states = [BudgetState(DAY, budgets.day, total(used.values()))] if budgets.day.limits else []
    for name, budget in budgets.agents.items():
        if budget.limits and agent in {None, name}:
            states.append(BudgetState(f"agents.{name}", budget, used.get(name, Sums())))
    return states


def refusal(state: BudgetState, purpose: Purpose, day: date, zone: str) -> str:
    """Returns the text with the reason, the end and the remedy of a refusal."""
    if state.level is not BudgetLevel.STOPPED:
        return f"{state.path} is nearly used up, and this ({purpose}) can wait until tomorrow."
    limit = "tokens" if state.budget.tokens is not None else "cost"
    return (
        f"The budget of today is used up ({state.path}). Runs continue from 00:00 on"
        f" {day + timedelta(days=1)} ({zone}). Your message is kept: send /retry then. To go on"
        f" now, let the owner raise it: skerry config set {state.path}.{limit} NUMBER."
    )


def warning(
    budget_states: Sequence[BudgetState], warned: Mapping[str, str], day: date
) -> BudgetWarning | None:
    """Returns the warning about these budgets; None if it was given today (`warned`)."""
    due = [
        state
        for state in budget_states
        if (state.level is not BudgetLevel.OK or state.blind)
        and warned.get(state.notice) != str(day)
    ]
    if not due:
        return None
    lines = [f"💸 Used today, of {state.path}: {state.summary()}." for state in due]
    if any(state.level is BudgetLevel.WARNED for state in due):
        lines.append(
            "At 100 % runs stop until tomorrow; heartbeats and flushes are stopped already."
        )
    if any(state.budget.cost is not None and state.used.unpriced for state in due):
        lines.append("Set prices in models.providers.<name>.models[].cost.")
    return BudgetWarning("\n\n".join(lines), tuple(state.notice for state in due), str(day))
