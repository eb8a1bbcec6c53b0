"""Check of `skerry doctor` for the devices."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def waiting(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields a warning when devices wait for approval."""
    count = status.get("devices", {}).get("pending", 0)
    if count:
        yield Check("devices", Level.WARNING, f"{count} wait for approval.", "skerry devices list")
