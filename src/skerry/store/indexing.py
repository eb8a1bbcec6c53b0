"""Fills the full-text index over entries in the background.

Indexing in the unit that appends would write one segment of the index for each turn; in the
background many entries share a segment. The database stores the position up to which each session
is indexed, so an older database, or one whose gateway was killed, is indexed while the gateway
runs. A search first indexes the missing entries of its sessions, so that it misses none. A message
that may be a command is indexed after its answer is stored.
"""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from msgspec import Struct, field

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.errors import StateError
from skerry.model.message import Message
from skerry.store import text_index
from skerry.store.index_words import indexed, may_be_command
from skerry.store.store import Store, TouchedSessions
from skerry.store.unit import Reader, Unit

logger = logging.getLogger(__name__)

COLLECT_SECONDS: Final = 5.0
"""Seconds for which commits are collected; a search meanwhile indexes the missing entries."""
BATCH: Final = 200
"""Limit on the entries of one unit, because other units wait for it."""
BATCH_CHARS: Final = 1 << 20
"""Approximate limit on the characters of a batch; long tool results make it shorter."""


class Indexer(Struct):
    """Keeps the index up to date: pass the sessions of commits to `touched`, and run `run`."""

    touched: TouchedSessions = field(default_factory=lambda: TouchedSessions(COLLECT_SECONDS))
    """Sessions with new entries."""

    async def run(self, store: Store) -> None:
        """Indexes the backlog of earlier processes, then new entries, at most every 5 seconds."""
        if unindexed := await store.read(behind):
            self.touched.add(unindexed)
        while True:
            await self.touched.due()
            touched = self.touched.take()
            try:
                await fill(store, list(touched))
            except StateError as error:
                logger.warning("entries could not be indexed for search, retrying later: %s", error)
                self.touched.add(touched)


async def fill(store: Store, session_ids: list[str]) -> None:
    """Indexes all missing entries of the sessions.

    Raises:
        StateError: a write failed; the entries before it stay indexed.
    """
    for session_id in session_ids:
        while await store.write(partial(_index_some, session_id=session_id)):
            pass


def behind(reader: Reader) -> list[str]:
    """Returns the sessions with entries that are not indexed."""
    rows = reader.all(
        "SELECT session.session_id FROM session LEFT JOIN entry_indexed USING (session_id)"
        " WHERE tail > coalesce(seq, 0)"
    )
    return [session_id for (session_id,) in rows]


def _index_some(unit: Unit, session_id: str) -> bool:
    """Indexes the session's next entries; returns whether there may be more."""
    row = unit.one("SELECT serial, seq FROM entry_indexed WHERE session_id = ?", (session_id,))
    if row is None:
        row = unit.one(
            "INSERT INTO entry_indexed (session_id, seq) VALUES (?, 0) RETURNING serial, seq",
            (session_id,),
        ) or (0, 0)
    serial, last = int(row[0]), int(row[1])
    entries = unit.all(
        "SELECT seq, kind IS NULL, body FROM entry WHERE session_id = ? AND seq > ?"
        " ORDER BY seq LIMIT ?",
        (session_id, last, BATCH + 1),
    )
    rows: list[tuple[int, str]] = []
    chars, has_more = 0, len(entries) > BATCH
    messages = _read([(seq, body) for seq, is_message, body in entries if is_message])
    for seq, _, _ in entries[:BATCH]:
        text = ""
        if seq in messages:
            entry_message, answer = messages[seq]
            if answer is None and may_be_command(entry_message):
                has_more = False
                break
            text = indexed(entry_message, answer)
        if text:
            rows.append((serial << 32 | seq, text))
        last, chars = seq, chars + len(text)
        if chars > BATCH_CHARS:
            has_more = True
            break
    text_index.add(unit, rows)
    unit.execute("UPDATE entry_indexed SET seq = ? WHERE serial = ?", (last, serial))
    return has_more


def _read(rows: Sequence[tuple[int, bytes]]) -> dict[int, tuple[Message, Message | None]]:
    """Decodes the readable entries, by number, each with the message that follows it."""
    messages: list[tuple[int, Message]] = []
    for seq, body in rows:
        try:
            messages.append((seq, message.decode(body)))
        except (TypeError, *UNREADABLE):
            logger.exception("entry %d cannot be read and is not indexed for search", seq)
    answers = [answer for _, answer in messages[1:]]
    return {
        seq: (entry_message, answer)
        for (seq, entry_message), answer in zip_longest(messages, answers)
    }


def forget(unit: Unit, session_id: str) -> None:
    """Removes the session from the index; call it before its entries are deleted."""
    row = unit.one("SELECT serial, seq FROM entry_indexed WHERE session_id = ?", (session_id,))
    if row is None:
        return
    serial, last = row
    entries = unit.all(
        "SELECT seq, body FROM entry WHERE session_id = ? AND kind IS NULL ORDER BY seq",
        (session_id,),
    )
    rows = [
        (serial << 32 | seq, text)
        for seq, (entry_message, answer) in _read(entries).items()
        if seq <= last and (text := indexed(entry_message, answer))
    ]
    text_index.remove(unit, rows)
    unit.execute("DELETE FROM entry_indexed WHERE serial = ?", (serial,))
