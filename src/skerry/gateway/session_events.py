"""Sends changed sessions and new messages to subscribed clients.

A commit only reports the ids of the sessions that it changed; a moment later the changes are read
and sent, so that many commits cost one read. Without subscriptions nothing is read.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Raw, Struct

from skerry.gateway.broadcast import Broadcast
from skerry.gateway.frames import Json
from skerry.model.errors import StateError
from skerry.model.session import SessionEntry, TranscriptEntry, entry_id
from skerry.store import Reader, Store, sessions
from skerry.store.store import TouchedSessions

COLLECT_SECONDS: Final = 0.05
SESSIONS: Final = "sessions"
"""Topic of clients that receive all changes of sessions."""
_BATCH: Final = 200
"""Limit of messages of one session that are sent at a time."""

Row = Callable[[SessionEntry], dict[str, Json]]
Line = Callable[[TranscriptEntry], bytes]


def messages_of(key: str) -> str:
    """Returns the topic of clients that receive the messages of the conversation `key`."""
    return f"messages:{key}"


class _Change(Struct, frozen=True):
    """Unsent change of one session."""

    session: SessionEntry
    reason: str
    entries: list[TranscriptEntry]


class SessionEvents:
    """Changes of sessions for subscribers. Report commits to `touched`, and run `run`."""

    def __init__(self, broadcast: Broadcast, now_ms: Callable[[], int]) -> None:
        self._broadcast = broadcast
        self._now_ms = now_ms
        self._sent: dict[str, dict[str, int]] = {}
        self.touched = TouchedSessions(COLLECT_SECONDS)
        """Sessions that may have changed."""
        self._reasons: dict[str, str] = {}
        """Reasons of changes other than new messages."""

    def follow(self, key: str, session: SessionEntry | None, *, first: bool) -> None:
        """Starts sending the messages of a conversation after the present end of its `session`.

        `first` is True when no client was subscribed before.
        """
        if first:
            self._sent.pop(key, None)
        if session is None:
            return
        sent = self._sent.setdefault(key, {})
        if session.session_id not in sent:
            sent[session.session_id] = session.tail
            self.touched.add([session.session_id])  # a message may have arrived since it was read

    def skip(self, session: SessionEntry) -> None:
        """Marks the messages of a session as sent, before it is restored."""
        if (sent := self._sent.get(session.key)) is not None:
            sent[session.session_id] = session.tail

    def changed(self, session_ids: Sequence[str], reason: str) -> None:
        """Marks sessions with changes other than new messages."""
        self._reasons.update(dict.fromkeys(session_ids, reason))
        self.touched.add(session_ids)

    async def due(self) -> None:
        """Waits until there are changes for a subscriber."""
        while True:
            await self.touched.due()
            if self._broadcast.has_topics:
                return
            self._take()

    def _take(self) -> tuple[set[str], dict[str, str]]:
        """Returns the changed sessions and the reasons, and clears both."""
        reasons, self._reasons = self._reasons, {}
        return self.touched.take(), reasons

    async def run(self, store: Store, row: Row, line: Line) -> None:
        """Sends the changes, at most every 50 ms, until cancelled.

        Args:
            store: Store of the sessions.
            row: Encodes a session as a row.
            line: Encodes a message.

        """
        while True:
            await self.due()
            touched, reasons = self._take()
            self._forget()
            try:
                changes = await store.read(partial(self._changes, touched, reasons))
            except StateError:  # they are sent after the next commit
                self.touched.waiting |= touched
                self._reasons = reasons | self._reasons
                raise
            for change in changes:
                self._send(change, row, line)

    def _forget(self) -> None:
        """Drops the positions of conversations without subscribers."""
        for key in [key for key in self._sent if not self._broadcast.is_wanted(messages_of(key))]:
            del self._sent[key]

    def _changes(self, touched: set[str], reasons: dict[str, str], reader: Reader) -> list[_Change]:
        changes = []
        for session_id in touched:
            session = sessions.get(reader, session_id)
            if session is None:
                continue
            new: list[TranscriptEntry] = []
            if self._broadcast.is_wanted(messages_of(session.key)):
                sent = self._sent.get(session.key, {}).get(session_id, 0)
                new = sessions.entries(reader, session_id, limit=_BATCH, after=sent)
            changes.append(_Change(session, reasons.get(session_id, ""), new))
        return changes

    def _send(self, change: _Change, row: Row, line: Line) -> None:
        session, send = change.session, self._broadcast.send
        for entry in change.entries:
            self._sent.setdefault(session.key, {})[session.session_id] = entry.seq
            send("session.message", _message(session, entry, line), topic=messages_of(session.key))
        if change.reason or session.archived is None:
            cause = {"reason": change.reason} if change.reason else {"phase": "message"}
            payload = row(session) | {"sessionKey": session.key, "ts": self._now_ms(), **cause}
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
