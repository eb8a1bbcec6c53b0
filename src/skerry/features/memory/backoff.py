"""Backoff after failures (pure)."""

from dataclasses import dataclass
from typing import Final

RESTS: Final = (60.0, 300.0, 1500.0)
"""Seconds of rest after the first, the second, and each further failure in a row."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Number of failures in a row, and the end of the pause."""

    failures: int = 0
    until: int = 0
    """Time in milliseconds since 1970."""

    def after_failure(self, now: int) -> "Rest":
        """Returns the rest that a failure at `now` leads to; the next is longer, up to 25 min."""
        seconds = RESTS[min(self.failures, len(RESTS) - 1)]
        return Rest(self.failures + 1, now + round(seconds * 1000))

    def over(self, now: int) -> bool:
        """Returns whether it may be tried.

        A clock that was set back does not make a rest longer than the longest one.
        """
        return now >= self.until or self.until - now > RESTS[-1] * 1000
