"""A clock that a test moves."""


class FakeClock:
    """Gives the time that the test sets. Implements `infra.clock.Clock`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, UTC; the same until `advance`."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Lets time pass. A negative number sets the clock back, as a person or NTP may."""
        self._now_ms += milliseconds
