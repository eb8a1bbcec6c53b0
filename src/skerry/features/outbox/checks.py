"""Check of `skerry doctor` for the outbox."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def undelivered(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields a warning when parts of replies are not delivered."""
    parts = status.get("undelivered", {})
    if parts:
        counted = ", ".join(f"{number} {state}" for state, number in sorted(parts.items()))
        message = f"parts of replies are not delivered: {counted}."
        remedy = (
            "The conversations have all replies. List the parts and reasons: skerry outbox list"
        )
        yield Check("delivery", Level.WARNING, message, remedy)
