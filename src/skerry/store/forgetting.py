"""Takes statements out of the database: transcripts, summaries, runs, replies, and their index.

What is to be forgotten is written down first, so that a process that dies goes on where it was.
Ids, numbers and times stay: a transcript keeps its shape, and a repeated request its answer. At the
end the database is written anew, so that no page that is not used any more has the text.
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
"""Function that deletes copies of files by their names, and returns how many there were."""
BATCH: Final = 100
"""Rows in one unit: other units wait behind it."""
PASSES: Final = 5
"""Number of passes over the tables, for text that arrived in the meantime."""


class Forgetting(Struct, frozen=True):
    """Statements that are being erased."""

    serial: int
    agent: AgentId
    phrases: tuple[str, ...]
    """None where all is done but `finish`."""
    extra: bool = False
    """Erases them in the extra paths too."""


def begin(
    unit: Unit, agent: AgentId, phrases: Sequence[str], now: int, *, extra: bool = False
) -> int:
    """Writes down what is to be forgotten; returns its number."""
    row = unit.one(
        "INSERT INTO forgetting (agent, phrases, asked_at, extra) VALUES (?, ?, ?, ?)"
        " RETURNING serial",
        (agent, msgspec.json.encode(phrases), now, extra),
    )
    return int(row[0]) if row else 0


def begun(reader: Reader) -> list[Forgetting]:
    """Returns the erasures that are not complete, the oldest first."""
    rows = reader.all("SELECT serial, agent, phrases, extra FROM forgetting ORDER BY serial")
    return [
        Forgetting(serial, AgentId(agent), tuple(msgspec.json.decode(phrases)), bool(extra))
        for serial, agent, phrases, extra in rows
    ]


def begun_at(reader: Reader) -> int | None:
    """Returns when the oldest open job was asked for, in ms; None if all are done."""
    ((at,),) = reader.all("SELECT min(asked_at) FROM forgetting")
    return None if at is None else int(at)


def count_matches(reader: Reader, agent: AgentId, redaction: Redaction) -> RedactionCounts:
    """Returns where statements stand, without a change of anything."""
    counted = RedactionCounts()
    for table in tables():
        for row in _rows(reader, table, agent, redaction):
            counted += table.counted(row)
    return counted


async def keep(_names: Collection[str]) -> int:
    """Deletes no copy of a file; returns 0."""
    return 0


async def redact(
    store: Store, agent: AgentId, redaction: Redaction, discard: Discard = keep
) -> RedactionCounts:
    """Takes the statements out of everything that the agent's conversations have.

    It reads all of it, and writes a hundred rows in a unit; what comes meanwhile is looked at
    again. `discard` deletes the copies of files that came or went with the words, before the rows
    change that name them.

    Raises:
        StateError: it could not be written; what is written down is gone on with at the next start.
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
    """Leaves no trace of the text in the files, and notes that nothing is left of it.

    The index is merged and the database written anew: some seconds for 100,000 entries.

    Raises:
        StateError: the disk is full, say; it is gone on with at the next call, or start.
    """
    await store.write(lambda unit: _blank(unit, serial))
    await store.purge()
    await store.write(lambda unit: _finish(unit, serial))


def holds(path: Path, redaction: Redaction) -> bool:
    """Returns whether a copy of the database, also of an older version, has statements. Blocks.

    Raises:
        sqlite3.Error: it cannot be read.
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
    """Returns whether a copy of the database has words of a job that was not done. Blocks.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    with closing(sqlite.connect(path, read_only=True)) as connection:
        return any(_begun(Reader(connection)))


def _begun(reader: Reader) -> list[list[str]]:
    """Returns the words of each job that was not done; none of a version without such jobs."""
    if not engine.columns(reader, "forgetting"):
        return []
    rows = reader.all("SELECT phrases FROM forgetting")
    return [msgspec.json.decode(phrases, type=list[str]) for (phrases,) in rows]


def _rows(
    reader: Reader, table: TextTable, agent: AgentId | None, redaction: Redaction
) -> Iterator[tuple[Any, ...]]:
    """Gives the rows with statements in them."""
    for row in reader.each(
        f"SELECT {table.columns} FROM {table.name} WHERE {table.owned(agent)}",  # noqa: S608 - names of ours
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
            f"UPDATE {table.name} SET {table.changed} WHERE {table.named}",  # noqa: S608 - names of ours
            (*texts, *key_values),
        )
        _follow(unit, table, key, row[0], texts[0])
        changed += table.counted(key)
    return changed


def _follow(unit: Unit, table: TextTable, key: tuple[Any, ...], old: Any, new: Any) -> None:
    """Changes what was made of a row that changed."""
    match table.name:
        case "entry":
            # A file that is written anew from the beginning, also by the next start.
            unit.execute("DELETE FROM mirror WHERE session_id = ?", (key[0],))
            if _called(old) != _called(new):
                message_counts.recount(unit, key[0])
            unit.touched.append(key[0])
        case "run":  # else it could be guessed, and tried
            unit.execute("UPDATE run SET digest = NULL WHERE serial = ?", key)
        case "approval":
            unit.execute("UPDATE approval SET fingerprint = '' WHERE approval_id = ?", key)
        case "audit":  # the chain has the digest of what it was
            unit.execute("UPDATE audit SET body = NULL WHERE seq = ?", key)
        case "frozen_text":  # half a text would not be what the file says either
            frozen_prompt.melt_text(unit, key[0])


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
        with suppress(msgspec.ValidationError):  # the index has none of it
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
