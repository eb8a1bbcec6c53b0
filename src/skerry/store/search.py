"""Finds what was said in a session, however long ago, and whether it was compacted or archived.

Whoever searches finds what is theirs: the conversation itself, with all its earlier incarnations
but those that were deleted. In a private conversation of the owner, and where it is asked for, the
owner's other conversations with the same agent are searched too; never a group's, and never one
with another person.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import msgspec

from skerry.model.errors import StateError
from skerry.model.ids import SessionId, SessionKey
from skerry.model.recall import Excerpt, SearchResults, TranscriptHit
from skerry.model.session import Archived
from skerry.store.candidates import CANDIDATES, Entry, Scope, around, gather
from skerry.store.exchange import WIDTH, Exchange, exchange
from skerry.store.fts_query import excerpt
from skerry.store.indexing import fill
from skerry.store.store import Store
from skerry.store.unit import AT_ONCE, Reader, marks
from skerry.store.words import plain
from skerry_recall.diverse import jaccard, tokens

MAX_HITS: Final = 50
FILL_SECONDS: Final = 5.0
"""Seconds for which a search waits for the index; after them it reports that it is incomplete."""
SEARCH_SECONDS: Final = 10.0
"""Seconds for the search itself."""
_FETCHED: Final = 8
"""Entries ranked for a hit: an exchange counts once, whichever of its entries have the words."""
SAME: Final = 0.9
"""The Jaccard index from which on an exchange repeats a better one and is left out."""
EXCERPT: Final = 700
"""Characters of what was found, of its question and of its answer."""
AROUND: Final = 300
"""Characters of what else was said before and after it."""


@dataclass(frozen=True, slots=True)
class Question:
    """Query with its filters."""

    key: SessionKey
    """The conversation that asks."""
    text: str
    limit: int = 8
    others: bool = False
    """Adds the owner's other conversations, if this one is the owner's."""
    everywhere: bool = False
    """Searches every conversation of the agent; for callers who may read them all."""
    only: frozenset[str] | None = None
    """Restricts the search to sessions with these keys."""
    within: SessionId | None = None
    """Restricts the search to this incarnation."""
    until: tuple[SessionId, int] | None = None
    """Entries of this session from this number on are left out: they are the question itself."""


async def search(store: Store, question: Question) -> SearchResults:
    """Returns the exchanges in which any of the question's content words stand, the best first.

    What has a phrase in quotes or an identifier of the question leads. Takes some 10 ms of CPU,
    the first time 0.1 s more.

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
    with anyio.move_on_after(SEARCH_SECONDS):
        hits = await store.scan(partial(_hits, question=question, where=where))
        return SearchResults(hits, complete)
    return SearchResults((), complete=False)


def _searchable(reader: Reader, question: Question) -> dict[str, tuple[str, bool]]:
    """Returns the sessions to search: by id their key and whether they are archived."""
    own = str(question.key)
    wide = question.everywhere or (question.others and question.key.is_owners)
    column, value = ("agent_id", question.key.agent) if wide else ("key", own)
    rows = reader.all(
        "SELECT session_id, key, NOT current FROM session"  # noqa: S608 - one of two columns
        f" WHERE (archived IS NULL OR archived <> ?) AND {column} = ?",
        (Archived.DELETED, value),
    )
    return {
        session_id: (key, bool(archived))
        for session_id, key, archived in rows
        if (key == own or question.everywhere or SessionKey.parse(key).is_owners)
        and question.within in {None, session_id}
        and (question.only is None or key in question.only)
    }


def _hits(
    reader: Reader, question: Question, where: Mapping[str, tuple[str, bool]]
) -> list[TranscriptHit]:
    from skerry.store.ranking import ranked  # noqa: PLC0415 - numpy comes with a search

    scope = _scope(reader, question, where)
    most = min(question.limit, MAX_HITS)
    gathered = gather(reader, question.text, scope, min(most * _FETCHED, CANDIDATES))
    shown: set[int] = set()
    token_sets: list[frozenset[str]] = []
    hits: list[TranscriptHit] = []
    for candidate in ranked(gathered, question.text, most * _FETCHED):
        entry = gathered.entries[candidate.at]
        if len(hits) == most:
            break
        if entry.rowid in shown:
            continue  # an exchange whose question and answer both match is one hit
        near = around(reader, entry.rowid, scope, WIDTH)
        around_hit = exchange(
            near, next(at for at, other in enumerate(near) if other.rowid == entry.rowid)
        )
        words = tokens(" ".join(other.text for other in near if other.rowid in around_hit.both))
        shown |= around_hit.whole
        if all(jaccard(words, other) < SAME for other in token_sets):
            token_sets.append(words)
            hits.append(_hit(around_hit, question.text, scope, where))
    return hits


def _scope(reader: Reader, question: Question, where: Mapping[str, tuple[str, bool]]) -> Scope:
    ids, serials, total = list(where), dict[int, str](), 0
    for at in range(0, len(ids), AT_ONCE):
        some = tuple(ids[at : at + AT_ONCE])
        for serial, session_id, seq in reader.all(
            "SELECT serial, session_id, seq FROM entry_indexed"  # noqa: S608 - placeholders
            f" WHERE session_id IN ({marks(some)})",
            some,
        ):
            serials[serial] = session_id
            total += seq
    until_id, until = question.until or (None, 0)
    own = next((serial for serial, id_ in serials.items() if id_ == until_id), 0)
    return Scope(serials, own, until, total)


def _hit(
    hit: Exchange, question: str, scope: Scope, where: Mapping[str, tuple[str, bool]]
) -> TranscriptHit:
    session_id = scope.serials[hit.said.serial]
    key, archived = where[session_id]

    def shown(entry: Entry) -> Excerpt:
        size = EXCERPT if entry is hit.said or entry.rowid in hit.both else AROUND
        role = msgspec.to_builtins(entry.said)["role"]
        return Excerpt(entry.seq, entry.at, role, excerpt(plain(entry.said), question, size))

    return TranscriptHit(
        key,
        SessionId(session_id),
        shown(hit.said),
        shown(hit.before) if hit.before else None,
        shown(hit.after) if hit.after else None,
        archived,
    )
