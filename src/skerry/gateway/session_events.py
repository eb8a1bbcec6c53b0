"""Tells clients that asked for it which sessions changed, and what was said in them.

A commit only says which sessions it touched; a little later the news reads what is new and tells
it, so that many commits cost one look. While nobody asks, a commit costs nothing.
"""

from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Raw, Struct

from skerry.gateway.broadcast import Broadcast
from skerry.gateway.frames import Json
from skerry.model.errors import StateError
from skerry.model.session import SessionEntry, TranscriptEntry, entry_id
from skerry.store import Reader, Store, sessions

COLLECT_SECONDS: Final = 0.05
SESSIONS: Final = "sessions"
"""The topic of those who hear of every session that changes."""
_BATCH: Final = 200
"""Messages of one session that are told at a time."""

Row = Callable[[SessionEntry], dict[str, Json]]
Line = Callable[[TranscriptEntry], bytes]


def messages_of(key: str) -> str:
    """Returns the topic of those who hear what is said in the conversation `key`."""
    return f"messages:{key}"


class _Change(Struct, frozen=True):
    """Change of one session that is to be sent."""

    session: SessionEntry
    reason: str
    entries: list[TranscriptEntry]


class News:
    """Changes of sessions, for subscribers. `touch` it after commits and keep `run` going."""

    def __init__(self, broadcast: Broadcast, now_ms: Callable[[], int]) -> None:
        self._broadcast = broadcast
        self._now_ms = now_ms
        self._told: dict[str, dict[str, int]] = {}
        self._dirty: dict[str, str] = {}
        self._wake = anyio.Event()

    def follow(self, key: str, session: SessionEntry | None, *, first: bool) -> None:
        """Begins to tell what is said in the conversation, after what its `session` holds.

        `first`: nobody has followed it until now.
        """
        if first:
            self._told.pop(key, None)
        if session is None:
            return
        told = self._told.setdefault(key, {})
        if session.session_id not in told:
            told[session.session_id] = session.tail
            self.touch([session.session_id])  # something may have come since it was read

    def known(self, session: SessionEntry) -> None:
        """Notes that what the session holds is no news: it is about to be restored."""
        if (told := self._told.get(session.key)) is not None:
            told[session.session_id] = session.tail

    def touch(self, session_ids: list[str], reason: str = "") -> None:
        """Notes that the sessions may have changed; `reason` says why where it is no message."""
        if not self._broadcast.has_topics:
            return
        for session_id in session_ids:
            if reason or session_id not in self._dirty:
                self._dirty[session_id] = reason
        self._wake.set()

    async def run(self, store: Store, row: Row, line: Line) -> None:
        """Tells what is new, at most every 50 ms.

        Args:
            store: Where it is read.
            row: Makes a session's row.
            line: Makes a message, encoded.
        """
        while True:
            await self._wake.wait()
            await anyio.sleep(COLLECT_SECONDS)
            dirty, self._dirty = self._dirty, {}
            self._wake = anyio.Event()
            self._forget()
            try:
                changes = await store.read(lambda reader: self._changes(reader, dirty))  # noqa: B023 - read at once
            except StateError:
                self._dirty = dirty | self._dirty  # the next commit wakes us
                raise
            for change in changes:
                self._tell(change, row, line)

    def _forget(self) -> None:
        """Forgets how far conversations were told that nobody follows any more."""
        for key in [key for key in self._told if not self._broadcast.is_wanted(messages_of(key))]:
            del self._told[key]

    def _changes(self, reader: Reader, dirty: dict[str, str]) -> list[_Change]:
        changes = []
        for session_id, reason in dirty.items():
            session = sessions.get(reader, session_id)
            if session is None:
                continue
            new: list[TranscriptEntry] = []
            if self._broadcast.is_wanted(messages_of(session.key)):
                told = self._told.get(session.key, {}).get(session_id, 0)
                new = sessions.entries(reader, session_id, limit=_BATCH, after=told)
            changes.append(_Change(session, reason, new))
        return changes

    def _tell(self, change: _Change, row: Row, line: Line) -> None:
        session, tell = change.session, self._broadcast.tell
        for entry in change.entries:
            self._told.setdefault(session.key, {})[session.session_id] = entry.seq
            tell("session.message", _message(session, entry, line), topic=messages_of(session.key))
        if change.reason or session.archived is None:
            said = {"reason": change.reason} if change.reason else {"phase": "message"}
            payload = row(session) | {"sessionKey": session.key, "ts": self._now_ms(), **said}
            tell("sessions.changed", payload, topic=SESSIONS)


def _message(session: SessionEntry, entry: TranscriptEntry, line: Line) -> Json:
    return {
        "sessionKey": session.key,
        "sessionId": session.session_id,
        "agentId": session.agent_id,
        "message": Raw(line(entry)),
        "messageId": entry_id(entry.seq),
        "messageSeq": entry.seq,
    }
