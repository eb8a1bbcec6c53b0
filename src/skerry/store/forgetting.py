"""Erases statements from the database: transcripts, summaries, runs, replies, and their index.

An erasure is stored before it begins, so that the next start continues it after a crash. Ids,
numbers and times are kept: a transcript keeps its shape, and a repeated request gets its answer.
At the end the database is rewritten, so that no unused page contains the text.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.infra import sqlite
from skerry.model import message
from skerry.model.ids import AgentId
from skerry.model.redaction import Redaction
from skerry.store import engine, frozen_prompt, message_counts, text_index
from skerry.store.forgetting_tables import TextTable, copies, tables
from skerry.store.index_words import indexed
from skerry.store.redaction_counts import RedactionCounts
from skerry.store.store import Store
from skerry.store.unit import Reader, Unit

Discard = Callable[[Collection[str]], Awaitable[int]]
"""Function that deletes copies of files by their names, and returns how many it deleted."""
BATCH: Final = 100
"""Limit on the rows of one unit, because other units wait for it."""
PASSES: Final = 5
"""Limit on the passes over the tables; later passes find text that arrived meanwhile."""


class Forgetting(Struct, frozen=True):
    """An erasure that is not complete."""

    serial: int
    agent: AgentId
    phrases: tuple[str, ...]
    """Empty when only `finish` is missing."""
    extra: bool = False
    """True when the extra paths of the memory are erased too."""


def begin(
    unit: Unit, agent: AgentId, phrases: Sequence[str], now: int, *, extra: bool = False
) -> int:
    """Stores an erasure before it is executed; returns its number."""
    row = unit.one(
        "INSERT INTO forgetting (agent, phrases, asked_at, extra) VALUES (?, ?, ?, ?)"
        " RETURNING serial",
        (agent, msgspec.json.encode(phrases), now, extra),
    )
    return int(row[0]) if row else 0


def incomplete(reader: Reader) -> list[Forgetting]:
    """Returns the erasures that are not complete, the oldest first."""
    rows = reader.all("SELECT serial, agent, phrases, extra FROM forgetting ORDER BY serial")
    return [
        Forgetting(serial, AgentId(agent), tuple(msgspec.json.decode(phrases)), bool(extra))
        for serial, agent, phrases, extra in rows
    ]


def incomplete_since(reader: Reader) -> int | None:
    """Returns the time of the oldest incomplete erasure, in ms; None without one."""
    ((at,),) = reader.all("SELECT min(asked_at) FROM forgetting")
    return None if at is None else int(at)


def count_matches(reader: Reader, agent: AgentId, redaction: Redaction) -> RedactionCounts:
    """Counts the rows with the statements, without changing them."""
    counted = RedactionCounts()
    for table in tables():
        for row in _rows(reader, table, agent, redaction):
            counted += table.counted(row)
    return counted


async def keep(_names: Collection[str]) -> int:
    """Keeps all copies of files; returns 0."""
    return 0


async def redact(
    store: Store, agent: AgentId, redaction: Redaction, discard: Discard = keep
) -> RedactionCounts:
    """Erases the statements from all rows of the agent's conversations.

    Reads every row, writes 100 rows in each unit, and repeats for text that arrived meanwhile.
    `discard` deletes the copies of files of the erased messages before the rows that name them
    change.

    Raises:
        StateError: a write failed; the next start continues the stored erasure.
    """
    total = RedactionCounts()
    for _ in range(PASSES):
        changed = RedactionCounts()
        for table in tables():

            def look(
                reader: Reader, table: TextTable = table
            ) -> tuple[list[tuple[Any, ...]], set[str]]:
                keys, names = list[tuple[Any, ...]](), set[str]()
                for row in _rows(reader, table, agent, redaction):
                    keys.append(table.key(row))
                    names |= copies(row[len(table.keys) :])
                return keys, names

            keys, names = await store.scan(look)
            changed += RedactionCounts(media=await discard(names) if names else 0)
            for at in range(0, len(keys), BATCH):
                part = keys[at : at + BATCH]

                def change(
                    unit: Unit, table: TextTable = table, part: list[tuple[Any, ...]] = part
                ) -> RedactionCounts:
                    return _change(unit, table, part, redaction)

                changed += await store.write(change)
        total += changed
        if not changed.rows:
            break
    return total


async def finish(store: Store, serial: int) -> None:
    """Removes the text from unused pages of the files, and marks the erasure as complete.

    Merges the index and rewrites the database: some seconds for 100,000 entries.

    Raises:
        StateError: a write failed, for example on a full disk; the next call or start continues.
    """
    await store.write(lambda unit: _blank(unit, serial))
    await store.purge()
    await store.write(lambda unit: _finish(unit, serial))


def holds(path: Path, redaction: Redaction) -> bool:
    """Returns whether a copy of the database, of any version, has the statements. Blocks.

    Raises:
        sqlite3.Error: the copy cannot be read.
    """
    with closing(sqlite.connect(path, read_only=True)) as connection:
        reader = Reader(connection)
        for table in tables():
            columns = engine.columns(reader, table.name)
            older = replace(table, keys=(), texts=tuple(sorted(columns.intersection(table.texts))))
            if older.texts and next(_rows(reader, older, None, redaction), None) is not None:
                return True
        return any(redaction.holds(phrase) for phrases in _begun(reader) for phrase in phrases)


def is_forgetting(path: Path) -> bool:
    """Returns whether a copy of the database has an incomplete erasure with its phrases. Blocks.

    Raises:
        sqlite3.Error: the copy cannot be read.
    """
    with closing(sqlite.connect(path, read_only=True)) as connection:
        return any(_begun(Reader(connection)))


def _begun(reader: Reader) -> list[list[str]]:
    """Returns the phrases of each incomplete erasure; empty for a version without the table."""
    if not engine.columns(reader, "forgetting"):
        return []
    rows = reader.all("SELECT phrases FROM forgetting")
    return [msgspec.json.decode(phrases, type=list[str]) for (phrases,) in rows]


def _rows(
    reader: Reader, table: TextTable, agent: AgentId | None, redaction: Redaction
) -> Iterator[tuple[Any, ...]]:
    """Yields the rows that contain a statement."""
    for row in reader.each(
        f"SELECT {table.columns} FROM {table.name} WHERE {table.owned(agent)}",  # noqa: S608 - constant names
        (agent,) * table.owned(agent).count("?"),
    ):
        texts = row[len(table.keys) :]
        if any(table.redacted(text, redaction) != text for text in texts):
            yield row


def _change(
    unit: Unit, table: TextTable, keys: list[tuple[Any, ...]], redaction: Redaction
) -> RedactionCounts:
    engine.overwrite_deleted(unit)
    changed = RedactionCounts()
    for key in keys:
        key_values = key[: table.named.count("?")]
        values = unit.one(
            f"SELECT {table.columns} FROM {table.name} WHERE {table.named}",  # noqa: S608 - constant names
            key_values,
        )
        if values is None:
            continue
        row = values[len(table.keys) :]
        texts = tuple(table.redacted(text, redaction) for text in row)
        if texts == row:
            continue
        if table.name == "entry" and key[2] is None:
            _index_anew(unit, key, bytes(row[0]), texts[0])
        unit.execute(
            f"UPDATE {table.name} SET {table.changed} WHERE {table.named}",  # noqa: S608 - constant names
            (*texts, *key_values),
        )
        _follow(unit, table, key, row[0], texts[0])
        changed += table.counted(key)
    return changed


def _follow(unit: Unit, table: TextTable, key: tuple[Any, ...], old: Any, new: Any) -> None:
    """Updates the data that was derived from a changed row."""
    match table.name:
        case "entry":
            # Without the mark the file is rewritten from the beginning, by the next start too.
            unit.execute("DELETE FROM mirror WHERE session_id = ?", (key[0],))
            if _called(old) != _called(new):
                message_counts.recount(unit, key[0])
            unit.touched.append(key[0])
        case "run":  # a guess of the text could be checked against the digest
            unit.execute("UPDATE run SET digest = NULL WHERE serial = ?", key)
        case "approval":
            unit.execute("UPDATE approval SET fingerprint = '' WHERE approval_id = ?", key)
        case "audit":  # the hash chain covers the digest of the original body
            unit.execute("UPDATE audit SET body = NULL WHERE seq = ?", key)
        case "frozen_text":  # a redacted text would not match its file
            frozen_prompt.drop_text(unit, key[0])


def _called(body: Any) -> list[str]:
    """Returns the names of the tools that a message calls."""
    with suppress(msgspec.ValidationError):
        return [call.name for call in getattr(message.decode(body), "tool_calls", ())]
    return []


def _index_anew(unit: Unit, key: tuple[Any, ...], old: bytes, new: Any) -> None:
    session_id, seq, _ = key
    row = unit.one("SELECT serial, seq FROM entry_indexed WHERE session_id = ?", (session_id,))
    if row is None or row[1] < seq:
        return
    rowid = row[0] << 32 | seq
    following = unit.one(
        "SELECT body FROM entry WHERE session_id = ? AND seq > ? AND kind IS NULL"
        " ORDER BY seq LIMIT 1",
        (session_id, seq),
    )
    answer = None
    if following is not None:
        with suppress(msgspec.ValidationError):  # an unreadable entry is not indexed
            answer = message.decode(following[0])
    if text := indexed(message.decode(old), answer):
        text_index.remove(unit, [(rowid, text)])
    if text := indexed(message.decode(new), answer):
        text_index.add(unit, [(rowid, text)])


def _blank(unit: Unit, serial: int) -> None:
    text_index.merge(unit)
    unit.execute("UPDATE forgetting SET phrases = '[]' WHERE serial = ?", (serial,))


def _finish(unit: Unit, serial: int) -> None:
    unit.execute("DELETE FROM forgetting WHERE serial = ?", (serial,))
