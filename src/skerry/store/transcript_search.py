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

from skerry.model.errors import StateError
from skerry.model.ids import SessionId, SessionKey
from skerry.model.recall import SearchResults, TranscriptHit
from skerry.model.session import Archived
from skerry.store.indexing import fill
from skerry.store.store import Store
from skerry.store.unit import Reader

MAX_HITS: Final = 50
FILL_SECONDS: Final = 5.0
"""Seconds for which a search waits for the index; after them it reports that it is incomplete."""
SEARCH_SECONDS: Final = 10.0
"""Seconds for the search itself."""


@dataclass(frozen=True, slots=True)
class TranscriptQuery:
    """Query with its filters."""

    key: SessionKey
    """The conversation that asks."""
    text: str
    limit: int = 8
    owner_conversations: bool = False
    """Adds the owner's other conversations, if this one is the owner's."""
    everywhere: bool = False
    """Searches every conversation of the agent; for callers who may read them all."""
    only: frozenset[str] | None = None
    """Restricts the search to sessions with these keys."""
    within: SessionId | None = None
    """Restricts the search to this incarnation."""
    until: tuple[SessionId, int] | None = None
    """Entries of this session from this number on are left out: they are the question itself."""


async def search(store: Store, question: TranscriptQuery) -> SearchResults:
    """Returns the exchanges in which any of the question's content words stand, the best first.

    What has a phrase in quotes or an identifier of the question leads. Takes some 10 ms of CPU,
    the first time 0.1 s more.

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
        pass  # a full disk must not keep what is indexed from being found
    with anyio.move_on_after(SEARCH_SECONDS):
        hits = await store.scan(partial(_hits, question=question, sessions=sessions))
        return SearchResults(hits, complete)
    return SearchResults((), complete=False)


def _searchable(reader: Reader, question: TranscriptQuery) -> dict[str, tuple[str, bool]]:
    """Returns the sessions to search: by id their key and whether they are archived."""
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
    from skerry.store.transcript_hits import find  # noqa: PLC0415 - numpy comes with a search, in its thread

    return find(reader, question, sessions)
