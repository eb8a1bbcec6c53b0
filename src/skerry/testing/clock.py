"""Clock whose time a test sets."""


class FakeClock:
    """Returns the time that the test has set. Implements `infra.clock.Clock`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, UTC; changes only by `advance`."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Moves the time forward; a negative number moves it back, as a person or NTP may."""
        self._now_ms += milliseconds
