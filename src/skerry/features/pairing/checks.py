"""Check of `skerry doctor` for the pairing of senders."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def waiting(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields a warning when senders of platforms wait for the owner."""
    count = status.get("pairing", {}).get("pending", 0)
    if count:
        message = f"{count} sender(s) of chat platforms wait for approval."
        yield Check("pairing", Level.WARNING, message, "skerry pairing list")
