"""Hits of a search: the best entries, each with its exchange of question, tool calls and answer.

Loads numpy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from skerry.model.ids import SessionId
from skerry.model.message import AssistantMessage, UserMessage
from skerry.model.recall import Excerpt, TranscriptHit
from skerry.store.fts_query import excerpt
from skerry.store.index_words import plain
from skerry.store.ranking import ranked
from skerry.store.search_candidates import (
    CANDIDATES,
    IndexedEntry,
    SearchScope,
    gather,
    neighbourhood,
)
from skerry.store.transcript_search import MAX_HITS, TranscriptQuery
from skerry.store.unit import AT_ONCE, Reader, marks
from skerry_recall.diversity import jaccard, tokens

_FETCHED: Final = 8
"""Number of ranked entries per hit: several entries of one exchange make one hit."""
SAME: Final = 0.9
"""Jaccard index from which on an exchange repeats a better one and is skipped."""
EXCERPT: Final = 700
"""Limit on the characters of the matching entry, its question and its answer."""
CONTEXT: Final = 300
"""Limit on the characters of other entries before and after it."""
WIDTH: Final = 12
"""Entries before and after a hit in which its question and its answer are searched."""


@dataclass(frozen=True, slots=True)
class HitExchange:
    """The up to three entries shown for a hit, and its exchange."""

    match: IndexedEntry
    before: IndexedEntry | None
    """The question, or the nearest message before the match."""
    after: IndexedEntry | None
    """The answer, or the nearest message after the match."""
    rowids: frozenset[int]
    """Rowids of all entries of the exchange and of the shown ones."""
    question_and_answer: frozenset[int]
    """Rowids of its question and its answer."""


def exchange(entries: Sequence[IndexedEntry], at: int) -> HitExchange:
    """Returns the exchange around the entry at index `at` of consecutive entries.

    The question is the person's last message up to the entry, the answer the assistant's last
    message before the person's next one. The tool calls and results are between them.
    """
    begin = next((index for index in range(at, -1, -1) if _asks(entries[index])), 0)
    end = next(
        (index for index in range(at + 1, len(entries)) if _asks(entries[index])), len(entries)
    )
    answers = [index for index in range(begin, end) if _answers(entries[index])]
    answer = answers[-1] if answers else None
    before = begin if begin < at else _nearest_message(entries, range(at - 1, -1, -1))
    after = (
        answer
        if answer is not None and answer > at
        else _nearest_message(entries, range(at + 1, len(entries)))
    )
    parts = [entries[index] for index in (at, before, after) if index is not None]
    question_and_answer = [entries[index] for index in (begin, answer) if index is not None]
    return HitExchange(
        match=entries[at],
        before=None if before is None else entries[before],
        after=None if after is None else entries[after],
        rowids=frozenset(entry.rowid for entry in (*entries[begin:end], *parts)),
        question_and_answer=frozenset(entry.rowid for entry in question_and_answer),
    )


def _nearest_message(entries: Sequence[IndexedEntry], positions: range) -> int | None:
    return next((at for at in positions if _asks(entries[at]) or _answers(entries[at])), None)


def _asks(entry: IndexedEntry) -> bool:
    return isinstance(entry.message, UserMessage)


def _answers(entry: IndexedEntry) -> bool:
    return isinstance(entry.message, AssistantMessage) and bool(entry.message.text.strip())


def find(
    reader: Reader, question: TranscriptQuery, sessions: Mapping[str, tuple[str, bool]]
) -> list[TranscriptHit]:
    """Returns the hits in `sessions`, which maps session id to (key, is archived)."""
    scope = _scope(reader, question, sessions)
    limit = min(question.limit, MAX_HITS)
    gathered = gather(reader, question.text, scope, min(limit * _FETCHED, CANDIDATES))
    shown: set[int] = set()
    token_sets: list[frozenset[str]] = []
    hits: list[TranscriptHit] = []
    for candidate in ranked(gathered, question.text, limit * _FETCHED):
        entry = gathered.entries[candidate.at]
        if len(hits) == limit:
            break
        if entry.rowid in shown:
            continue  # several matches in one exchange are one hit
        near = neighbourhood(reader, entry.rowid, scope, WIDTH)
        hit_exchange = exchange(
            near, next(at for at, neighbour in enumerate(near) if neighbour.rowid == entry.rowid)
        )
        compared = hit_exchange.question_and_answer
        words = tokens(
            " ".join(neighbour.text for neighbour in near if neighbour.rowid in compared)
        )
        shown |= hit_exchange.rowids
        if all(jaccard(words, earlier) < SAME for earlier in token_sets):
            token_sets.append(words)
            hits.append(_hit(hit_exchange, question.text, scope, sessions))
    return hits


def _scope(
    reader: Reader, question: TranscriptQuery, sessions: Mapping[str, tuple[str, bool]]
) -> SearchScope:
    ids, serials, total = list(sessions), dict[int, str](), 0
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
    until_serial = next((serial for serial, id_ in serials.items() if id_ == until_id), 0)
    return SearchScope(serials, until_serial, until, total)


def _hit(
    hit: HitExchange, question: str, scope: SearchScope, sessions: Mapping[str, tuple[str, bool]]
) -> TranscriptHit:
    session_id = scope.serials[hit.match.serial]
    key, archived = sessions[session_id]

    def excerpt_of(entry: IndexedEntry) -> Excerpt:
        size = EXCERPT if entry is hit.match or entry.rowid in hit.question_and_answer else CONTEXT
        role = msgspec.to_builtins(entry.message)["role"]
        return Excerpt(entry.seq, entry.at, role, excerpt(plain(entry.message), question, size))

    return TranscriptHit(
        key,
        SessionId(session_id),
        excerpt_of(hit.match),
        excerpt_of(hit.before) if hit.before else None,
        excerpt_of(hit.after) if hit.after else None,
        archived,
    )
