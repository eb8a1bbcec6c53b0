"""System events that the next run of a session receives beside its message, in their order."""

from typing import Final

from skerry.infra.clock import Clock
from skerry.model.ids import SessionKey

MOST: Final = 20
"""Notices that wait for one session; the oldest goes first."""
MOST_CHARS: Final = 4_096
"""Limit on one event: all of them together go into one prompt, and are in memory until then."""
_SESSIONS: Final = 200


class Notices:
    """Queue of system events, in memory only: events that wait at a stop are dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[SessionKey, list[tuple[int, str]]] = {}

    def add(self, key: SessionKey, text: str) -> None:
        """Keeps a notice for the session's next run, once where the same comes again and again."""
        if len(text) > MOST_CHARS:
            text = text[: MOST_CHARS - 1] + "…"
        waiting = self._waiting.setdefault(key, [])
        if not waiting or waiting[-1][1] != text:
            waiting.append((self._clock.now_ms(), text))
        del waiting[:-MOST]
        while len(self._waiting) > _SESSIONS:
            del self._waiting[next(iter(self._waiting))]

    def waiting(self, key: SessionKey) -> tuple[tuple[int, str], ...]:
        """Returns the events queued for the session, each with its time in milliseconds."""
        return tuple(self._waiting.get(key, ()))

    def told(self, key: SessionKey, notices: tuple[tuple[int, str], ...]) -> None:
        """Forgets notices that a run was told."""
        left = [one for one in self._waiting.get(key, ()) if one not in notices]
        if left:
            self._waiting[key] = left
        else:
            self._waiting.pop(key, None)

    def all(self) -> list[str]:
        """Returns the texts that wait, for whichever session."""
        return [text for waiting in self._waiting.values() for _, text in waiting]
