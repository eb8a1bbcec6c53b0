"""Waits between failing attempts (pure)."""

from msgspec import Struct

_EXPONENT = 64
"""Limit of the exponent: a larger one would overflow a float."""


class Backoff(Struct, frozen=True):
    """Exponential wait: `base * factor ** (failures - 1)` seconds, at most `cap`.

    `jitter`, 0 to 1, is the share of a wait that is random: with 1 a wait is 0 to the full time.
    """

    base: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, chance: float = 1.0) -> float:
        """Returns the seconds to wait after `failures` failures in a row, 1 or more.

        `chance` is a random number in [0, 1) for the jitter; 1.0 gives the full wait.
        """
        exponent = min(max(failures, 1) - 1, _EXPONENT)
        seconds = min(self.cap, self.base * self.factor**exponent)
        return seconds * (1 - self.jitter * (1 - chance))


class Steps(Struct, frozen=True):
    """Listed waits in seconds, for the first, second, ... failure; the last one repeats."""

    seconds: tuple[float, ...]

    def delay(self, failures: int) -> float:
        """Returns the seconds to wait after `failures` failures in a row, 1 or more."""
        return self.seconds[min(max(failures, 1), len(self.seconds)) - 1]


class Rest(Struct, frozen=True):
    """Pause of a part after failures in a row; immutable."""

    backoff: Backoff
    failures: int = 0
    until: int = 0
    """End of the pause, in milliseconds since 1970."""

    def after_failure(self, now: int) -> "Rest":
        """Returns the pause that follows a failure at `now`, in milliseconds since 1970."""
        seconds = self.backoff.delay(self.failures + 1)
        return Rest(self.backoff, self.failures + 1, now + round(seconds * 1000))

    def over(self, now: int) -> bool:
        """Returns True when the part may be tried at `now`, in milliseconds since 1970.

        A clock that was set back does not extend the pause beyond `backoff.cap`.
        """
        return now >= self.until or self.until - now > self.backoff.cap * 1000
