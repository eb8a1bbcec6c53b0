"""Finds what was said in a session, however long ago, and whether it was compacted or archived.

Whoever searches finds what is theirs: the conversation itself, with all its earlier incarnations
but those that were deleted. In a private conversation of the owner, and where it is asked for, the
owner's other conversations with the same agent are searched too; never a group's, and never one
with another person.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import anyio
import msgspec

from skerry.model import message
from skerry.model.errors import StateError
from skerry.model.ids import SessionId, SessionKey
from skerry.model.recall import Found, Hit, Said
from skerry.model.session import Archived
from skerry.store.indexing import fill
from skerry.store.store import Store
from skerry.store.unit import Reader
from skerry.store.words import excerpt, expression, indexed, plain

MAX_HITS: Final = 50
FILL_SECONDS: Final = 5.0
"""How long a search waits for what is not indexed yet; then it says that it is incomplete."""
_FETCHED: Final = 3
"""Matches for a hit: an exchange may match with its question, its answer and what follows."""
EXCERPT: Final = 700
"""Characters of what was found."""
AROUND: Final = 300
"""Characters of what was said before and after it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for, and where."""

    key: SessionKey
    """The conversation that asks."""
    text: str
    limit: int = 8
    others: bool = False
    """Also in the owner's other conversations, if this one is the owner's."""
    everywhere: bool = False
    """In every conversation of the agent; for whom may read them all."""
    within: SessionId | None = None
    """Only in this incarnation."""
    until: tuple[SessionId, int] | None = None
    """Entries of this session from this number on are left out: they are the question itself."""


async def search(store: Store, question: Question) -> Found:
    """Return where any of the question's content words stand, by rank (BM25).

    Raises:
        StateError: the database cannot be read.
    """
    where = await store.read(lambda reader: _searchable(reader, question))
    complete = False
    try:
        with anyio.move_on_after(FILL_SECONDS):
            await fill(store, list(where))
            complete = True
    except StateError:
        pass  # a full disk must not keep what is indexed from being found
    hits = await store.read(lambda reader: _hits(reader, question, where))
    return Found(hits, complete)


def _searchable(reader: Reader, question: Question) -> dict[str, tuple[str, bool]]:
    """Return the sessions to search: by id their key and whether they are archived."""
    columns = "SELECT session_id, key, NOT current FROM session WHERE archived IS NOT ? AND "
    parameters: tuple[object, ...] = (Archived.DELETED,)
    if question.everywhere or (question.others and question.key.is_owners):
        rows = reader.all(f"{columns} agent_id = ?", (*parameters, question.key.agent))
    else:
        rows = reader.all(f"{columns} key = ?", (*parameters, str(question.key)))
    own = str(question.key)
    return {
        session_id: (key, bool(archived))
        for session_id, key, archived in rows
        if (key == own or question.everywhere or SessionKey.parse(key).is_owners)
        and question.within in {None, session_id}
    }


def _hits(reader: Reader, question: Question, where: dict[str, tuple[str, bool]]) -> list[Hit]:
    wanted, most = expression(question.text), min(question.limit, MAX_HITS)
    if wanted is None or not where:
        return []
    serials: dict[int, str] = dict(
        reader.all(
            "SELECT serial, session_id FROM entry_indexed"
            " WHERE session_id IN (SELECT value FROM json_each(?))",
            (_json(list(where)),),
        )
    )
    until_id, until = question.until or (None, 0)
    own = next((serial for serial, one in serials.items() if one == until_id), 0)
    rows = reader.all(
        "SELECT rowid FROM entry_text WHERE entry_text MATCH ?"
        " AND rowid >> 32 IN (SELECT value FROM json_each(?))"
        " AND NOT (rowid >= ? AND rowid >> 32 = ?)"
        " ORDER BY rank, rowid DESC LIMIT ?",
        (wanted, _json(list(serials)), own << 32 | until, own, _FETCHED * most),
    )
    matched = {rowid for (rowid,) in rows}
    shown: set[int] = set()
    hits: list[Hit] = []
    for (rowid,) in rows:
        if rowid in shown or len(hits) == most:
            continue  # an exchange whose question and answer both match is one hit
        session_id, seq = serials[rowid >> 32], rowid & 0xFFFF_FFFF
        key, archived = where[session_id]
        beside = {one & 0xFFFF_FFFF for one in (rowid - 1, rowid + 1) if one in matched}
        around = _around(reader, session_id, seq, question.text, beside)
        before, said, after = around
        if said is not None:
            hits.append(Hit(key, SessionId(session_id), said, before, after, archived))
            shown |= {rowid - seq + one.seq for one in around if one is not None}
    return hits


def _around(
    reader: Reader, session_id: str, seq: int, question: str, matched: AbstractSet[int]
) -> tuple[Said | None, Said | None, Said | None]:
    """Return the entry before, the entry itself and the one after it; more of those that match."""
    rows = reader.all(
        "SELECT seq, at, body FROM entry WHERE session_id = ? AND kind IS NULL"
        " AND seq BETWEEN ? AND ?",
        (session_id, seq - 1, seq + 1),
    )
    found = {}
    for one, at, body in rows:
        said = message.decode(body)
        if one != seq and not indexed(said):
            continue  # what only repeats others
        size = EXCERPT if one == seq or one in matched else AROUND
        role = msgspec.to_builtins(said)["role"]
        found[one] = Said(one, at, role, excerpt(plain(said), question, size))
    return found.get(seq - 1), found.get(seq), found.get(seq + 1)


def _json(values: list[str] | list[int]) -> str:
    return msgspec.json.encode(values).decode()
