"""System events, which the next run of a session gets in addition to its message."""

from typing import Final

from skerry.infra.clock import Clock
from skerry.model.ids import SessionKey

MAX_EVENTS: Final = 20
"""Limit of queued events of one session; the oldest are dropped."""
MAX_CHARS: Final = 4_096
"""Limit of one event, in characters: all of them are kept in memory and added to one prompt."""
_SESSIONS: Final = 200


class SystemEvents:
    """Queue of system events in memory; a stop drops them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.queued: dict[SessionKey, tuple[tuple[int, str], ...]] = {}
        """Queued events by session, each with its time in milliseconds."""

    def add(self, key: SessionKey, text: str) -> None:
        """Queues an event for the session's next run; a repetition of the last one is ignored."""
        if len(text) > MAX_CHARS:
            text = text[: MAX_CHARS - 1] + "…"
        events = self.queued.get(key, ())
        if not events or events[-1][1] != text:
            events = (*events, (self._clock.now_ms(), text))[-MAX_EVENTS:]
        self.queued[key] = events
        while len(self.queued) > _SESSIONS:
            del self.queued[next(iter(self.queued))]

    def delivered(self, key: SessionKey, events: tuple[tuple[int, str], ...]) -> None:
        """Removes the events that a run has received."""
        remaining = tuple(event for event in self.queued.get(key, ()) if event not in events)
        if remaining:
            self.queued[key] = remaining
        else:
            self.queued.pop(key, None)

    def texts(self) -> list[str]:
        """Returns the texts of the queued events of all sessions."""
        return [text for events in self.queued.values() for _, text in events]
