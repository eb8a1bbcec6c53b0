"""Takes statements out of the database: transcripts, summaries, runs, replies, and their index.

What is to be forgotten is written down first, so that a process that dies goes on where it was.
Ids, numbers and times stay: a transcript keeps its shape, and a repeated request its answer. At the
end the database is written anew, so that no page that is not used any more has the text.
"""

from collections.abc import Callable, Iterator, Sequence
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
from skerry.store import engine, frozen, tally, text_index
from skerry.store.redacted import Redacted
from skerry.store.store import Store
from skerry.store.unit import Reader, Unit
from skerry.store.words import indexed

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


def found(reader: Reader, agent: AgentId, redaction: Redaction) -> Redacted:
    """Returns where statements stand, without a change of anything."""
    counted = Redacted()
    for table in _TABLES:
        for row in _rows(reader, table, agent, redaction):
            counted += table.counted(row)
    return counted


async def redact(store: Store, agent: AgentId, redaction: Redaction) -> Redacted:
    """Takes the statements out of everything that the agent's conversations have.

    It reads all of it, and writes a hundred rows in a unit; what comes meanwhile is looked at
    again.

    Raises:
        StateError: it could not be written; what is written down is gone on with at the next start.
    """
    done = Redacted()
    for _ in range(PASSES):
        now = Redacted()
        for table in _TABLES:

            def look(reader: Reader, table: "_Table" = table) -> list[tuple[Any, ...]]:
                return [table.key(row) for row in _rows(reader, table, agent, redaction)]

            keys = await store.scan(look)
            for at in range(0, len(keys), BATCH):
                part = keys[at : at + BATCH]

                def change(
                    unit: Unit, table: "_Table" = table, part: list[tuple[Any, ...]] = part
                ) -> Redacted:
                    return _change(unit, table, part, redaction)

                now += await store.write(change)
        done += now
        if not now.rows:
            break
    return done


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
        for table in _TABLES:
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


class _Table(Struct, frozen=True):
    """Table with text, and the owner of its rows."""

    name: str
    keys: tuple[str, ...]
    texts: tuple[str, ...]
    """Columns of JSON (BLOB) or plain text."""
    owner: str
    """A condition with the agent as `?`; `TRUE` where rows are nobody's."""
    count: Callable[[Sequence[str]], Redacted]
    """Function that counts a row, by its keys and texts."""

    @property
    def columns(self) -> str:
        return ", ".join((*self.keys, *self.texts))

    @property
    def named(self) -> str:
        """Returns the condition that names one row."""
        return " AND ".join(f"{name} = ?" for name in self.keys if name != "kind")

    @property
    def changed(self) -> str:
        return ", ".join(f"{name} = ?" for name in self.texts)

    def owned(self, agent: AgentId | None) -> str:
        return "TRUE" if agent is None else self.owner

    def key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[: len(self.keys)]

    def counted(self, row: tuple[Any, ...]) -> Redacted:
        return self.count(row)


def _entry(row: Sequence[Any]) -> Redacted:
    summary = row[2] is not None
    return Redacted(entries=not summary, summaries=summary, sessions=(row[0],))


def _label(row: Sequence[Any]) -> Redacted:
    return Redacted(labels=1, sessions=(row[0],))


_OF_SESSION: Final = "session_id IN (SELECT session_id FROM session WHERE agent_id = ?)"
_TABLES: Final = (
    _Table("entry", ("session_id", "seq", "kind"), ("body",), _OF_SESSION, _entry),
    _Table(
        "run",
        ("serial",),
        ("request", "partial", "result"),
        _OF_SESSION,
        lambda _: Redacted(runs=1),
    ),
    _Table(
        "outbox",
        ("serial",),
        ("text", "error", "more"),
        "run_id IN (SELECT run_id FROM run JOIN session USING (session_id) WHERE agent_id = ?)"
        " OR run_id LIKE 'approval-request-%'",
        lambda _: Redacted(replies=1),
    ),
    # An approval, and a request for it in a chat, name their agent in no column either.
    _Table(
        "approval",
        ("approval_id",),
        ("call", "subject", "outcome"),
        "TRUE",
        lambda _: Redacted(approvals=1),
    ),
    _Table(
        "allowlist",
        ("agent", "pattern"),
        ("last_command", "last_path"),
        "agent IN (?, '*')",
        lambda _: Redacted(approvals=1),
    ),
    _Table("audit", ("seq",), ("body",), "TRUE", lambda _: Redacted(approvals=1)),
    # Their requests name no agent in a column: what is the same is forgotten for all of them.
    _Table("answered", ("serial",), ("answer",), "TRUE", lambda _: Redacted(answers=1)),
    _Table("session", ("session_id",), ("label",), "agent_id = ?", _label),
    _Table("held_message", ("serial",), ("body",), "TRUE", lambda _: Redacted(runs=1)),
    _Table("group_message", ("serial",), ("sender", "text"), "TRUE", lambda _: Redacted(runs=1)),
    _Table(
        "frozen_text",
        ("digest",),
        ("text",),
        "digest IN (SELECT digest FROM frozen_part JOIN session USING (session_id)"
        " WHERE agent_id = ?)",
        lambda _: Redacted(prompts=1),
    ),
    _Table(
        "frozen_note",
        ("session_id", "seq"),
        ("text",),
        _OF_SESSION,
        lambda _: Redacted(prompts=1),
    ),
)


def _rows(
    reader: Reader, table: _Table, agent: AgentId | None, redaction: Redaction
) -> Iterator[tuple[Any, ...]]:
    """Gives the rows with statements in them."""
    for row in reader.each(
        f"SELECT {table.columns} FROM {table.name} WHERE {table.owned(agent)}",  # noqa: S608 - names of ours
        (agent,) * table.owned(agent).count("?"),
    ):
        texts = row[len(table.keys) :]
        if any(text is not None and _redacted(text, redaction) != text for text in texts):
            yield row


def _change(
    unit: Unit, table: _Table, keys: list[tuple[Any, ...]], redaction: Redaction
) -> Redacted:
    engine.overwrite_deleted(unit)
    changed = Redacted()
    for key in keys:
        whose = key[: table.named.count("?")]
        values = unit.one(f"SELECT {table.columns} FROM {table.name} WHERE {table.named}", whose)  # noqa: S608 - names of ours
        if values is None:
            continue
        row = values[len(table.keys) :]
        texts = tuple(None if text is None else _redacted(text, redaction) for text in row)
        if texts == row:
            continue
        if table.name == "entry" and key[2] is None:
            _index_anew(unit, key, bytes(row[0]), redaction)
        unit.execute(
            f"UPDATE {table.name} SET {table.changed} WHERE {table.named}",  # noqa: S608 - names of ours
            (*texts, *whose),
        )
        _follow(unit, table, key, row[0], texts[0])
        changed += table.counted(key)
    return changed


def _follow(unit: Unit, table: _Table, key: tuple[Any, ...], old: Any, new: Any) -> None:
    """Changes what was made of a row that changed."""
    match table.name:
        case "entry":
            # A file that is written anew from the beginning, also by the next start.
            unit.execute("DELETE FROM mirror WHERE session_id = ?", (key[0],))
            if _called(old) != _called(new):
                tally.recount(unit, key[0])
            unit.touched.append(key[0])
        case "run":  # else it could be guessed, and tried
            unit.execute("UPDATE run SET digest = NULL WHERE serial = ?", key)
        case "approval":
            unit.execute("UPDATE approval SET fingerprint = '' WHERE approval_id = ?", key)
        case "audit":  # the chain has the digest of what it was
            unit.execute("UPDATE audit SET body = NULL WHERE seq = ?", key)
        case "frozen_text":  # half a text would not be what the file says either
            frozen.melt_text(unit, key[0])


def _called(body: Any) -> list[str]:
    """Returns the names of the tools that a message calls."""
    with suppress(msgspec.ValidationError):
        return [call.name for call in getattr(message.decode(body), "tool_calls", ())]
    return []


def _index_anew(unit: Unit, key: tuple[Any, ...], old: bytes, redaction: Redaction) -> None:
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
    if text := indexed(message.decode(_redacted(old, redaction)), answer):
        text_index.add(unit, [(rowid, text)])


def _blank(unit: Unit, serial: int) -> None:
    text_index.merge(unit)
    unit.execute("UPDATE forgetting SET phrases = '[]' WHERE serial = ?", (serial,))


def _finish(unit: Unit, serial: int) -> None:
    unit.execute("DELETE FROM forgetting WHERE serial = ?", (serial,))


def _redacted(stored: bytes | str, redaction: Redaction) -> bytes | str:
    """Returns the stored text, or JSON, without the statements; itself where it has none."""
    if isinstance(stored, str):
        return redaction.text(stored) if redaction.may_be_in(stored) else stored
    if not redaction.may_be_in(stored.decode("utf-8", "replace")):
        return stored
    value = msgspec.json.decode(stored)
    new = redaction.value(value)
    return stored if new is value else msgspec.json.encode(new)
