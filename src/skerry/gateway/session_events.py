"""Sends subscribed clients the sessions that changed, and the new messages in them.

A commit only names the sessions that it touched; a little later their changes are read and sent, so
that many commits cost one read. While no client is subscribed, a commit costs nothing.
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
"""The topic of the clients that receive every change of a session."""
_BATCH: Final = 200
"""Messages of one session that are sent at a time."""

Row = Callable[[SessionEntry], dict[str, Json]]
Line = Callable[[TranscriptEntry], bytes]


def messages_of(key: str) -> str:
    """Returns the topic of the clients that receive the messages of the conversation `key`."""
    return f"messages:{key}"


class _Change(Struct, frozen=True):
    """Change of one session that is to be sent."""

    session: SessionEntry
    reason: str
    entries: list[TranscriptEntry]


class SessionEvents:
    """Changes of sessions, for subscribers. `touch` it after commits and keep `run` going."""

    def __init__(self, broadcast: Broadcast, now_ms: Callable[[], int]) -> None:
        self._broadcast = broadcast
        self._now_ms = now_ms
        self._sent: dict[str, dict[str, int]] = {}
        self._dirty: dict[str, str] = {}
        self._wake = anyio.Event()

    def follow(self, key: str, session: SessionEntry | None, *, first: bool) -> None:
        """Begins to send the messages of a conversation that come after the tail of its `session`.

        `first`: no client has followed it until now.
        """
        if first:
            self._sent.pop(key, None)
        if session is None:
            return
        sent = self._sent.setdefault(key, {})
        if session.session_id not in sent:
            sent[session.session_id] = session.tail
            self.touch([session.session_id])  # a message may have arrived since it was read

    def skip(self, session: SessionEntry) -> None:
        """Marks the session's messages as sent: it is about to be restored."""
        if (sent := self._sent.get(session.key)) is not None:
            sent[session.session_id] = session.tail

    def touch(self, session_ids: list[str], reason: str = "") -> None:
        """Marks sessions that may have changed; `reason` is empty for new messages."""
        if not self._broadcast.has_topics:
            return
        for session_id in session_ids:
            if reason or session_id not in self._dirty:
                self._dirty[session_id] = reason
        self._wake.set()

    async def touched(self) -> None:
        """Returns when a session was touched that has not been read since."""
        await self._wake.wait()

    async def run(self, store: Store, row: Row, line: Line) -> None:
        """Sends the changes, at most every 50 ms.

        Args:
            store: The store that has them.
            row: Encodes a session as a row.
            line: Encodes a message.
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
                self._dirty = dirty | self._dirty  # sent after the next commit
                raise
            for change in changes:
                self._send(change, row, line)

    def _forget(self) -> None:
        """Drops the positions of conversations that no client follows any more."""
        for key in [key for key in self._sent if not self._broadcast.is_wanted(messages_of(key))]:
            del self._sent[key]

    def _changes(self, reader: Reader, dirty: dict[str, str]) -> list[_Change]:
        changes = []
        for session_id, reason in dirty.items():
            session = sessions.get(reader, session_id)
            if session is None:
                continue
            new: list[TranscriptEntry] = []
            if self._broadcast.is_wanted(messages_of(session.key)):
                sent = self._sent.get(session.key, {}).get(session_id, 0)
                new = sessions.entries(reader, session_id, limit=_BATCH, after=sent)
            changes.append(_Change(session, reason, new))
        return changes

    def _send(self, change: _Change, row: Row, line: Line) -> None:
        session, send = change.session, self._broadcast.send
        for entry in change.entries:
            self._sent.setdefault(session.key, {})[session.session_id] = entry.seq
            send("session.message", _message(session, entry, line), topic=messages_of(session.key))
        if change.reason or session.archived is None:
            why = {"reason": change.reason} if change.reason else {"phase": "message"}
            payload = row(session) | {"sessionKey": session.key, "ts": self._now_ms(), **why}
            send("sessions.changed", payload, topic=SESSIONS)


def _message(session: SessionEntry, entry: TranscriptEntry, line: Line) -> Json:
    return {
        "sessionKey": session.key,
        "sessionId": session.session_id,
        "agentId": session.agent_id,
        "message": Raw(line(entry)),
        "messageId": entry_id(entry.seq),
        "messageSeq": entry.seq,
    }
