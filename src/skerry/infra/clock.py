"""The clock: every reading of the wall time goes through it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
