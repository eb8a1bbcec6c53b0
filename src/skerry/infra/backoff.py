"""Waiting times between attempts that fail (pure)."""

from msgspec import Struct

_EXPONENT = 64
"""Failures in a row that still make a difference; more would overflow a float."""


class Backoff(Struct, frozen=True):
    """Seconds to wait: `base` after the first failure, `factor` times more after each, up to `cap`.

    `jitter` is the random share of a wait: 0 is none, 1 anything from nothing to all of it.
    """

    base: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, chance: float = 1.0) -> float:
        """Returns seconds to wait after so many failures in a row, from 1.

        `chance` is a random number in [0, 1), for the jitter.
        """
        exponent = min(max(failures, 1) - 1, _EXPONENT)
        seconds = min(self.cap, self.base * self.factor**exponent)
        return seconds * (1 - self.jitter * (1 - chance))


class Steps(Struct, frozen=True):
    """Seconds to wait after the first, second, ... failure in a row; the last for all further."""

    seconds: tuple[float, ...]

    def delay(self, failures: int) -> float:
        """Returns seconds to wait after so many failures in a row, from 1."""
        return self.seconds[min(max(failures, 1), len(self.seconds)) - 1]


class Rest(Struct, frozen=True):
    """Number of failures in a row of something that is left alone for a while after each."""

    backoff: Backoff
    failures: int = 0
    until: int = 0
    """Time in milliseconds since 1970."""

    def after_failure(self, now: int) -> "Rest":
        """Returns the rest that a failure at `now` leads to."""
        seconds = self.backoff.delay(self.failures + 1)
        return Rest(self.backoff, self.failures + 1, now + round(seconds * 1000))

    def over(self, now: int) -> bool:
        """Returns whether it may be tried.

        A clock that was set back does not make a rest longer than the longest one.
        """
        return now >= self.until or self.until - now > self.backoff.cap * 1000
