"""Fills the full-text index over entries, behind what is written.

In the unit that appends it would cost each turn a segment of the index; behind it many entries
share one. How far each session is indexed stands in the database, so a database from before the
index, or one whose gateway died, is brought up while the gateway runs. A search first indexes what
its sessions still lack: nothing that was said is missed. What may be a command waits for its
answer.
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
"""Seconds for which commits are collected; a search in the meantime indexes the rest itself."""
BATCH: Final = 200
"""Entries in one unit at most: other units wait behind it."""
BATCH_CHARS: Final = 1 << 20
"""Characters of a batch, about: long results of tools make it shorter."""


class Indexer(Struct):
    """Keeps the index filled. Tell `touched` of commits and keep `run` going."""

    touched: TouchedSessions = field(default_factory=lambda: TouchedSessions(COLLECT_SECONDS))
    """Sessions with new entries."""

    async def run(self, store: Store) -> None:
        """Indexes what earlier processes left, then what is new, at most every five seconds."""
        if unindexed := await store.read(behind):
            self.touched.add(unindexed)
        while True:
            await self.touched.due()
            touched = self.touched.take()
            try:
                await fill(store, list(touched))
            except StateError as error:
                logger.warning("the search index is behind; it is tried again: %s", error)
                self.touched.add(touched)


async def fill(store: Store, session_ids: list[str]) -> None:
    """Indexes all that the sessions lack.

    Raises:
        StateError: it cannot be written; what is indexed stays.
    """
    for session_id in session_ids:
        while await store.write(partial(_index_some, session_id=session_id)):
            pass


def behind(reader: Reader) -> list[str]:
    """Returns the sessions that have entries which are not indexed."""
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
            logger.exception("an entry cannot be read; the search does not find it")
    answers = [answer for _, answer in messages[1:]]
    return {
        seq: (entry_message, answer)
        for (seq, entry_message), answer in zip_longest(messages, answers)
    }


def forget(unit: Unit, session_id: str) -> None:
    """Takes the session out of the index, before its entries go."""
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
