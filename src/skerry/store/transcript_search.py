"""Searches transcripts, including compacted messages and archived sessions.

A search covers the conversation itself with all its earlier sessions except deleted ones. In a
private conversation of the owner it covers, on request, the owner's other conversations with the
same agent too; never those of groups or of other persons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from skerry.model.errors import StateError
from skerry.model.ids import SessionId, SessionKey
from skerry.model.recall import SearchResults, TranscriptHit
from skerry.model.session import Archived
from skerry.store.indexing import fill
from skerry.store.store import Store
from skerry.store.unit import Reader

MAX_HITS: Final = 50
FILL_SECONDS: Final = 5.0
"""Limit on the wait for the index; after it the results are reported as incomplete."""
SEARCH_SECONDS: Final = 10.0
"""Limit on the search itself."""


@dataclass(frozen=True, slots=True)
class TranscriptQuery:
    """A query with its filters."""

    key: SessionKey
    """Key of the searching conversation."""
    text: str
    limit: int = 8
    owner_conversations: bool = False
    """True to add the owner's other conversations, if this one is the owner's."""
    everywhere: bool = False
    """True to search all conversations of the agent, for callers who may read all of them."""
    only: frozenset[str] | None = None
    """Restricts the search to sessions with these keys."""
    within: SessionId | None = None
    """Restricts the search to this session."""
    until: tuple[SessionId, int] | None = None
    """Excludes the entries of this session from this number on: they contain the question."""


async def search(store: Store, question: TranscriptQuery) -> SearchResults:
    """Returns the exchanges with any content word of the question, the best first.

    Exchanges with a quoted phrase or an identifier of the question are first. Takes about 10 ms of
    CPU, and 0.1 s more for the first search.

    Raises:
        StateError: the database cannot be read.
    """
    sessions = await store.read(lambda reader: _searchable(reader, question))
    complete = False
    try:
        with anyio.move_on_after(FILL_SECONDS):
            await fill(store, list(sessions))
            complete = True
    except StateError:
        pass  # on a full disk the indexed entries can still be searched
    with anyio.move_on_after(SEARCH_SECONDS):
        hits = await store.scan(partial(_hits, question=question, sessions=sessions))
        return SearchResults(hits, complete)
    return SearchResults((), complete=False)


def _searchable(reader: Reader, question: TranscriptQuery) -> dict[str, tuple[str, bool]]:
    """Returns the sessions to search, as a mapping of session id to (key, is archived)."""
    own_key = str(question.key)
    wide = question.everywhere or (question.owner_conversations and question.key.is_owners)
    column, value = ("agent_id", question.key.agent) if wide else ("key", own_key)
    rows = reader.all(
        "SELECT session_id, key, NOT current FROM session"  # noqa: S608 - one of two columns
        f" WHERE (archived IS NULL OR archived <> ?) AND {column} = ?",
        (Archived.DELETED, value),
    )
    return {
        session_id: (key, bool(archived))
        for session_id, key, archived in rows
        if (key == own_key or question.everywhere or SessionKey.parse(key).is_owners)
        and question.within in {None, session_id}
        and (question.only is None or key in question.only)
    }


def _hits(
    reader: Reader, question: TranscriptQuery, sessions: Mapping[str, tuple[str, bool]]
) -> list[TranscriptHit]:
    from skerry.store.transcript_hits import find  # noqa: PLC0415 - loads numpy in the search thread

    return find(reader, question, sessions)
