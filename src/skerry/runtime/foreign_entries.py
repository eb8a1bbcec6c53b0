"""Remembers which transcript entries have text of others, so that each is examined once."""

from typing import Final

from msgspec import Struct, field

from skerry.model.ids import SessionId
from skerry.model.message import CompactionMessage
from skerry.runtime.conversation import foreign
from skerry.sessions.summary import summary_message
from skerry.store import Reader, sessions

_MAX_SESSIONS: Final = 256
"""Limit of the known sessions; those that were examined first are dropped."""


class _Known(Struct):
    """Entries of a session with text of others."""

    last: int = 0
    """Number of the last entry that was examined."""
    numbers: list[int] = field(default_factory=list)

    def read(self, reader: Reader, session_id: SessionId) -> None:
        """Examines the entries that are new."""
        for entry in sessions.entries(reader, session_id, limit=-1, after=self.last):
            message = entry.message
            if isinstance(message, CompactionMessage):
                message = summary_message(message)
            if foreign(message) is not None:
                self.numbers.append(entry.seq)
            self.last = entry.seq


class ForeignEntries:
    """Entries of sessions with text of others that the owner has not cleared."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Known] = {}

    def is_tainted(self, reader: Reader, session_id: SessionId, through: int | None = None) -> bool:
        """Returns whether a session has such an entry, up to the number `through` or at all."""
        known = self._sessions.get(session_id) or _Known()
        if through is None or known.last < through:
            known.read(reader, session_id)
            self._sessions.pop(session_id, None)
            self._sessions[session_id] = known
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)), None)
        last = known.last if through is None else through
        if not known.numbers or known.numbers[0] > last:
            return False
        session = sessions.get(reader, session_id)
        cleared = (session.settings.taint_cleared or 0) if session else 0
        return any(cleared < number <= last for number in known.numbers)
