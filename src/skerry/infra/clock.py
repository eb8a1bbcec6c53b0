"""The clock: every reading of the wall time goes through it."""

import time
from datetime import UTC, datetime
from typing import Final, Protocol

DAY_MS: Final = 86_400_000


class Clock(Protocol):
    """Gives the time."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        ...


def iso(milliseconds: int) -> str:
    """Return the text of a time: `2026-11-21T20:45:40.114Z`."""
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
