"""Reads what may answer a question: the entries that have its words, and those beside them.

The index tells where each word stands; of the entries with the rarest words the text is read. What
is read is bounded, however long a conversation is. Loads numpy.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import numpy as np

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.message import Message
from skerry.store import text_index
from skerry.store.fts_query import search_terms
from skerry.store.index_words import MAX_TEXT, is_indexed, plain
from skerry.store.unit import Reader
from skerry_recall.postings import idf

CANDIDATES: Final = 100
"""Entries whose text is looked at, at most."""
NEIGHBOURS: Final = 2
"""Entries before and behind each, which say what it is about."""
MAX_CHARS: Final = 2_000_000
"""Characters that are looked at, about: half a second of CPU."""
MAX_MATCHES: Final = 5000
"""Entries in which one word is looked for, the newest: what stands in more says little."""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Entries that are searched."""

    serials: Mapping[int, str]
    """The sessions' ids by their number in the index."""
    until_serial: int = 0
    """The session, if any, of which only what stands before `until` is searched."""
    until: int = 0
    total: int = 0
    """Entries of these sessions that are indexed, about."""


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """An entry that was read."""

    rowid: int
    """Row in the index: the session's number and the entry's own."""
    at: int
    message: Message
    text: str

    @property
    def seq(self) -> int:
        """Returns its number in its session."""
        return self.rowid & 0xFFFF_FFFF

    @property
    def serial(self) -> int:
        """Returns the number of its session."""
        return self.rowid >> 32


@dataclass(frozen=True, slots=True)
class SearchCandidates:
    """The candidates, and how rare the words are."""

    entries: Sequence[IndexedEntry]
    """Entries with words and those beside them, in the order of the conversation."""
    weights: Mapping[int, float]
    """Weight of an entry's words by their rarity, by rowid; entries without any are missing."""
    exact: frozenset[int]
    """Rowids of those that have a phrase or an identifier of the question."""
    entry_counts: Mapping[str, int]
    """Number of entries with each word."""
    total: int
    """Approximate number of all entries."""


@dataclass(slots=True)
class _Reading:
    """Entries read so far."""

    entries: dict[int, IndexedEntry] = field(default_factory=dict)
    chars: int = 0


def rarity(total: int, count: int) -> float:
    """Returns how much a word tells that so many of all entries have; above 0."""
    return idf(max(total, count), count)


def best(weighted: Sequence[tuple[float, "array[int]"]], limit: int) -> dict[int, float]:
    """Returns the rows with the highest sums of their words' weights, the newest of equal ones."""
    if not weighted:
        return {}
    rows = np.concatenate([np.asarray(rowids, np.int64) for _, rowids in weighted])
    weights = np.repeat([weight for weight, _ in weighted], [len(rowids) for _, rowids in weighted])
    keys, positions = np.unique(rows, return_inverse=True)
    sums = np.bincount(positions, weights)
    order = np.lexsort((-keys, -sums))[:limit]
    return dict(zip(keys[order].tolist(), sums[order].tolist(), strict=True))


def gather(
    reader: Reader, question: str, scope: SearchScope, limit: int = CANDIDATES
) -> SearchCandidates:
    """Returns the candidates, of which `limit` have words. Some 10 ms, however many there are."""
    query = search_terms(question)
    rows = {word: _matching(reader, phrase, scope) for word, phrase in query.words.items()}
    entry_counts = {word: len(rowids) for word, rowids in rows.items()}
    weights = best([(rarity(scope.total, len(row)), row) for row in rows.values() if row], limit)
    exact = frozenset(
        rowid for phrase in query.exact for rowid in _matching(reader, phrase, scope)[:limit]
    )
    reading = _Reading()
    for rowid in (*exact, *weights):
        if reading.chars > MAX_CHARS:
            break
        _read(reader, rowid, scope, reading)
    entries = [reading.entries[rowid] for rowid in sorted(reading.entries)]
    return SearchCandidates(entries, weights, exact, entry_counts, scope.total)


def neighbourhood(reader: Reader, rowid: int, scope: SearchScope, width: int) -> list[IndexedEntry]:
    """Returns the entry, and those that stand up to `width` before and behind it, in order."""
    serial, seq = rowid >> 32, rowid & 0xFFFF_FFFF
    last = seq + width
    if serial == scope.until_serial:
        last = min(last, scope.until - 1)
    rows = reader.all(
        "SELECT seq, at, body FROM entry WHERE session_id = ? AND kind IS NULL"
        " AND seq >= ? ORDER BY seq LIMIT ?",
        (scope.serials[serial], seq - width, 2 * width + 2),
    )
    messages = [(number, at, _decoded(body)) for number, at, body in rows]
    entries: list[IndexedEntry] = []
    for (number, at, words), (_, _, answer) in zip_longest(
        messages, messages[1:], fillvalue=(0, 0, None)
    ):
        if number <= last and words is not None and is_indexed(words, answer):
            text = plain(words)[:MAX_TEXT]
            entries += [IndexedEntry(serial << 32 | number, at, words, text)] if text else []
    return entries


def _read(reader: Reader, rowid: int, scope: SearchScope, reading: _Reading) -> None:
    """Reads the entry, and what stands beside it."""
    for entry in neighbourhood(reader, rowid, scope, NEIGHBOURS):
        if entry.rowid not in reading.entries:
            reading.entries[entry.rowid] = entry
            reading.chars += len(entry.text)


def _decoded(body: bytes) -> Message | None:
    """Decodes the message of an entry; None if it is unreadable: `indexing` has logged that."""
    try:
        return message.decode(body)
    except (TypeError, *UNREADABLE):
        return None


def _matching(reader: Reader, phrase: str, scope: SearchScope) -> "array[int]":
    """Returns the rowids of the entries with the phrase, the newest first."""
    until = scope.until_serial << 32 | scope.until
    end = (scope.until_serial, until)
    return array("q", text_index.matching(reader, phrase, scope.serials, end, MAX_MATCHES))
