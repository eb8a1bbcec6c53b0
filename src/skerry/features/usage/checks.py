"""Check of `skerry doctor` for the budgets."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def budgets(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields budgets that are nearly used up, or that do not count all calls."""
    for budget in status.get("budgets", ()):
        if budget["state"] != "ok" or budget.get("notIncluded"):
            level = Level.WARNING if budget["state"] in {"ok", "warned"} else Level.FAILURE
            message = f"{budget['budget']}: {budget['message']}"
            yield Check("usage", level, message, "See the usage: skerry usage")
