"""System events that the next run of a session receives beside its message, in their order."""

from typing import Final

from skerry.infra.clock import Clock
from skerry.model.ids import SessionKey

MAX_EVENTS: Final = 20
"""Limit on the events queued for one session; the oldest is dropped first."""
MOST_CHARS: Final = 4_096
"""Limit on one event: all of them together go into one prompt, and are in memory until then."""
_SESSIONS: Final = 200


class SystemEvents:
    """Queue of system events, in memory only: events that wait at a stop are dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.queued: dict[SessionKey, tuple[tuple[int, str], ...]] = {}
        """Events of each session that has some, each with its time in milliseconds."""

    def add(self, key: SessionKey, text: str) -> None:
        """Queues an event for the session's next run; repeats of the last one are queued once."""
        if len(text) > MOST_CHARS:
            text = text[: MOST_CHARS - 1] + "…"
        events = self.queued.get(key, ())
        if not events or events[-1][1] != text:
            events = (*events, (self._clock.now_ms(), text))[-MAX_EVENTS:]
        self.queued[key] = events
        while len(self.queued) > _SESSIONS:
            del self.queued[next(iter(self.queued))]

    def delivered(self, key: SessionKey, events: tuple[tuple[int, str], ...]) -> None:
        """Removes events that a run received."""
        remaining = tuple(event for event in self.queued.get(key, ()) if event not in events)
        if remaining:
            self.queued[key] = remaining
        else:
            self.queued.pop(key, None)

    def texts(self) -> list[str]:
        """Returns the texts of all queued events, of whichever session."""
        return [text for events in self.queued.values() for _, text in events]
