"""Ranks transcript entries with `skerry_recall`, as the memory ranks passages. Loads numpy.

Words are weighted by their rarity among all searched entries, not only among the candidates. An
entry gets a share of the scores of its neighbours, because an answer often has none of the words of
its question. Vectors are not compared: transcripts have none for single entries.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from skerry.store.search_candidates import IndexedEntry, SearchCandidates, rarity
from skerry_recall.fuse import BEST, RankOptions, rank
from skerry_recall.language import guess
from skerry_recall.postings import MAX_COUNT, MAX_TEXT, add, norms
from skerry_recall.question import read
from skerry_recall.scores import Scores
from skerry_recall.terms import FORM, shared

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skerry_recall.arrays import Array
    from skerry_recall.numbers import Floats, Ints

SITTING_MS: Final = 3_600_000
"""Pause in milliseconds after which a new sitting begins; entries of different sittings are not
neighbours."""
_PROFILE: Final = replace(BEST, distinct=False, newer=0.0)
"""Profile of the ranking, which keeps repeated entries: only whole exchanges can be compared, as a
repeated question may have another answer."""


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """A candidate with its score."""

    at: int
    """Index among the candidates."""
    score: float
    """0 to 1."""


def ranked(gathered: "SearchCandidates", question: str, limit: int) -> list[RankedEntry]:
    """Returns up to `limit` candidates, those with a phrase of the question first, by score."""
    entries = gathered.entries
    if not entries:
        return []
    words = shared()
    parsed = read(question, words)
    rows, length = _counted([entry.text for entry in entries], parsed.terms)
    entry_counts = {
        term: count for word, count in gathered.entry_counts.items() for term in words.terms(word)
    }
    norm = norms(length, float(length.mean()))
    text = np.zeros(len(entries), np.float32)
    possible = 0.0
    for term, postings in rows.items():
        weight = rarity(gathered.total, entry_counts.get(term, len(postings[0])))
        possible += weight
        add(text, norm, postings, weight)
    scores = Scores(
        text=_lifted(text, gathered),
        vector=None,
        id=np.arange(1, len(entries) + 1),
        document=np.array(_sittings(entries), np.int32),
        position=np.arange(len(entries), dtype=np.int32),
        at=np.array([entry.at for entry in entries], np.int64),
        length=length,
        possible=possible,
    )
    options = RankOptions(question=parsed, texts=lambda rows: [entries[row].text for row in rows])
    hits = [
        RankedEntry(hit.row, hit.score)
        for hit in rank(scores, _PROFILE, limit, options)
        if scores.text[hit.row] > 0
    ]
    return sorted(hits, key=lambda hit: entries[hit.at].rowid not in gathered.exact)


def _counted(
    texts: "Sequence[str]", terms: "Collection[str]"
) -> "tuple[dict[str, tuple[Ints, Array]], Ints]":
    """Returns the postings of each term (text indices and counts), and the lengths of the texts.

    Building an index of all words would take twice as long, for a single search.
    """
    words = shared()
    needed = frozenset(terms)
    postings: dict[str, tuple[list[int], list[int]]] = {term: ([], []) for term in terms}
    lengths: list[int] = []
    for row, text in enumerate(texts):
        terms_of_form = words.of_language(guess(text))
        forms = FORM.findall(text[:MAX_TEXT])
        all_terms = list(chain.from_iterable(map(terms_of_form.__getitem__, forms)))
        lengths.append(len(all_terms))
        for term, count in Counter(filter(needed.__contains__, all_terms)).items():
            postings[term][0].append(row)
            postings[term][1].append(min(count, MAX_COUNT))
    term_postings = {
        term: (np.array(rows, np.int32), np.array(counts, np.uint8))
        for term, (rows, counts) in postings.items()
    }
    return term_postings, np.array(lengths, np.int32)


def _lifted(text: "Floats", gathered: "SearchCandidates") -> "Floats":
    """Returns the scores, above 0 for every match of the index, and highest for exact matches.

    The index stems differently from `skerry_recall`, so that either may miss a match of the other.
    """
    indexed = [gathered.weights.get(entry.rowid, 0.0) for entry in gathered.entries]
    text = np.where(text > 0, text, np.array(indexed, np.float32))
    exact = np.array([entry.rowid in gathered.exact for entry in gathered.entries])
    lift = max(1.0, float(text.max()))
    return np.where(exact, text + np.float32(lift), text).astype(np.float32)


def _sittings(entries: "Sequence[IndexedEntry]") -> list[int]:
    """Returns the number of the sitting of each entry."""
    numbers = [0]
    for entry, following in pairwise(entries):
        new = entry.serial != following.serial or following.at - entry.at > SITTING_MS
        numbers.append(numbers[-1] + new)
    return numbers
