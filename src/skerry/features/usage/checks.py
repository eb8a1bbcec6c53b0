"""Checks of `skerry doctor` of the usage."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def budgets(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields budgets that are nearly used up, or do not see all calls."""
    for one in status.get("budgets", ()):
        if one["state"] != "ok" or one.get("notIncluded"):
            level = Level.WARNING if one["state"] in {"ok", "warned"} else Level.FAILURE
            message = f"{one['budget']}: {one['message']}"
            yield Check("usage", level, message, "skerry usage shows where it went.")
