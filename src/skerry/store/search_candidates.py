"""Reads the candidates for a question: the entries with its words, and their neighbours.

The index returns the entries of each word; the text is read only for those with the rarest words.
The amount that is read is bounded, however long a conversation is. Loads numpy.
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
"""Limit on the entries with words whose text is read."""
NEIGHBOURS: Final = 2
"""Entries read before and after each candidate, as its context."""
MAX_CHARS: Final = 2_000_000
"""Approximate limit on the characters that are read: half a second of CPU."""
MAX_MATCHES: Final = 5000
"""Limit on the entries of one word, the newest: a more frequent word distinguishes little."""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The searched entries."""

    serials: Mapping[int, str]
    """Session ids by their serial in the index."""
    until_serial: int = 0
    """Serial of a session of which only the entries before `until` are searched; 0 for none."""
    until: int = 0
    total: int = 0
    """Approximate number of indexed entries of these sessions."""


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """An entry that was read."""

    rowid: int
    """Row in the index: serial of the session in the upper 32 bits, entry number in the lower."""
    at: int
    message: Message
    text: str

    @property
    def seq(self) -> int:
        """Returns the number of the entry in its session."""
        return self.rowid & 0xFFFF_FFFF

    @property
    def serial(self) -> int:
        """Returns the serial of its session."""
        return self.rowid >> 32


@dataclass(frozen=True, slots=True)
class SearchCandidates:
    """The candidates, and the frequencies of the words."""

    entries: Sequence[IndexedEntry]
    """Entries with words and their neighbours, in the order of the conversation."""
    weights: Mapping[int, float]
    """Sum of the rarities of an entry's words, by rowid; only entries with words."""
    exact: frozenset[int]
    """Rowids of the entries with a phrase or an identifier of the question."""
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
    """Returns the weight of a word that occurs in `count` of `total` entries; above 0."""
    return idf(max(total, count), count)


def best(weighted: Sequence[tuple[float, "array[int]"]], limit: int) -> dict[int, float]:
    """Returns the rows with the highest sums of word weights; of equal ones, the newest."""
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
    """Returns the candidates, up to `limit` of them with words. Takes about 10 ms."""
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
    """Returns the entry with those up to `width` numbers before and after it, in order."""
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
    """Reads the entry and its neighbours."""
    for entry in neighbourhood(reader, rowid, scope, NEIGHBOURS):
        if entry.rowid not in reading.entries:
            reading.entries[entry.rowid] = entry
            reading.chars += len(entry.text)


def _decoded(body: bytes) -> Message | None:
    """Decodes the message of an entry; None if it is unreadable, which `indexing` has logged."""
    try:
        return message.decode(body)
    except (TypeError, *UNREADABLE):
        return None


def _matching(reader: Reader, phrase: str, scope: SearchScope) -> "array[int]":
    """Returns the rowids of the entries with the phrase, the newest first."""
    until = scope.until_serial << 32 | scope.until
    end = (scope.until_serial, until)
    return array("q", text_index.matching(reader, phrase, scope.serials, end, MAX_MATCHES))
