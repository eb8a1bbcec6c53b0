"""Which passages have a word, and how often: sorted lists, ready to be mapped from a file.

Scores are computed from the counts when asked (BM25, Robertson and Zaragoza 2009, "The
Probabilistic Relevance Framework"), so that they are the same whatever the order of changes was.
On one core a list costs 3 ns a passage, whole queries at 100,000 passages well below 1 ms: nothing
has to be skipped, and a word that stands in a single passage always finds it.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skerry_recall.arrays import Array, Arrays
from skerry_recall.language import SPOKEN, guess
from skerry_recall.passage import Passage
from skerry_recall.scores import Floats, Ints, Longs, Mask
from skerry_recall.terms import Known, Words

K1: Final = 1.2
B: Final = 0.3
MAX_PASSAGES: Final = 1 << 24
"""Of one index: a row has 24 bits while it is sorted."""
MAX_TEXT: Final = 100_000
"""Characters of a passage that are indexed."""
_MOST: Final = 255
"""Times a word is counted in a passage."""
_BATCH: Final = 4096

Keys = NDArray[np.uint64]


class FullError(ValueError):
    """An index would have more passages than it can."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages of an index, ordered by document and place, and the words that they have."""

    id: Longs
    document: Ints
    place: Ints
    at: Longs
    length: Ints
    """Terms of each passage."""
    names: NDArray[np.uint8]
    """The terms in UTF-8, sorted, end to end."""
    ends: NDArray[np.uint32]
    """Where each begins in `names`, and where the last ends."""
    starts: Longs
    """Where each term's passages begin in `row`, and where the last one's end."""
    row: Ints
    count: NDArray[np.uint8]

    def __len__(self) -> int:
        """Return how many passages there are."""
        return len(self.id)

    def arrays(self) -> Arrays:
        """Return its fields by name, as `Postings(**arrays)` takes them."""
        return {name: getattr(self, name) for name in self.__slots__}

    def find(self, term: str) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the rows that have the term, ascending, and how often each."""
        wanted = term.encode()
        names, ends = self.names.data, self.ends.data
        low, high = 0, len(self.ends) - 1
        while low < high:
            middle = (low + high) // 2
            if bytes(names[ends[middle] : ends[middle + 1]]) < wanted:
                low = middle + 1
            else:
                high = middle
        if low < len(self.ends) - 1 and bytes(names[ends[low] : ends[low + 1]]) == wanted:
            begin, end = self.starts[low : low + 2]
            return self.row[begin:end], self.count[begin:end]
        return self.row[:0], self.count[:0]

    def terms(self) -> list[bytes]:
        """Return all terms in UTF-8, sorted."""
        names, ends = bytes(self.names.data), self.ends.tolist()
        return [names[begin:end] for begin, end in pairwise(ends)]


def build(passages: Iterable[Passage], words: Words) -> Postings:
    """Return the postings of the passages; about 25 us of CPU for one of 150 words.

    Raises:
        FullError: there are too many.
        ValueError: two have the same id.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    known = {language: _numbered(words.spoken(language), numbers) for language in SPOKEN}
    facts = array("q")
    keys: list[Keys] = []
    lengths = array("i")
    rest = iter(passages)
    while batch := list(islice(rest, _BATCH)):
        begin = len(lengths)
        found = [known[guess(one.text)].of(one.text[:MAX_TEXT]) for one in batch]
        lengths.extend(map(len, found))
        _check(len(lengths))
        for one in batch:
            facts.extend((one.id, one.document, one.place, -1 if one.at is None else one.at))
        term = np.fromiter(chain.from_iterable(found), np.uint64, sum(lengths[begin:]))
        row = np.repeat(np.arange(begin, len(lengths), dtype=np.uint64), lengths[begin:])
        key, count = np.unique(term << np.uint64(24) | row, return_counts=True)
        keys.append(key << np.uint64(8) | np.minimum(count, _MOST).astype(np.uint64))
    key = np.concatenate(keys) if keys else np.empty(0, np.uint64)
    rows = np.array(facts, np.int64).reshape(-1, 4)
    if len(np.unique(rows[:, 0])) < len(rows):
        raise ValueError("two passages have the same id")
    names = [one.encode() for one in numbers]
    order = sorted(range(len(names)), key=names.__getitem__)
    entries = _Entries(
        rows,
        np.array(lengths, np.int32),
        _inverse(np.array(order, np.int64))[_terms(key)],
        _rows(key),
        key.astype(np.uint8),
    )
    return _packed(entries, [names[one] for one in order])


def _numbered(spoken: Known[str], numbers: Mapping[str, int]) -> Known[int]:
    """Return the numbers of the terms of forms."""
    return Known(lambda form: map(numbers.__getitem__, spoken[form]))


def merge(parts: Sequence[tuple[Postings, Mask | None]]) -> Postings:
    """Return the rows of all parts as one, without those whose mask is False.

    Raises:
        FullError: there are too many.
    """
    parts = [(one, mask) for one, mask in parts if len(one)]
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0]
    names = sorted(set[bytes]().union(*(one.terms() for one, _ in parts)))
    number = {name: at for at, name in enumerate(names)}
    found = _Unsorted()
    for one, mask in parts:
        found.take(one, np.ones(len(one), np.bool_) if mask is None else mask, number)
    return _packed(found.joined(), names)


@dataclass(frozen=True, slots=True)
class _Entries:
    """What postings are made of: rows in any order, and one entry a term of a row."""

    facts: Longs
    """Id, document, place and date of each row."""
    length: Ints
    term: Longs
    row: Array
    count: NDArray[np.uint8]


class _Unsorted:
    """Collects the entries of several postings."""

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self._taken = [
            _Entries(
                np.empty((0, 4), np.int64), none.astype(np.int32), none, none, none.astype(np.uint8)
            )
        ]
        self._rows = 0

    def take(self, one: Postings, keep: Mask, number: Mapping[bytes, int]) -> None:
        """Take the rows that are to be kept; `number` says what each term is among all."""
        where = np.where(keep, np.cumsum(keep) + (self._rows - 1), -1)
        row = where[one.row]
        alive = row >= 0
        terms = np.array([number[name] for name in one.terms()], np.int64)
        facts = np.stack([one.id, one.document, one.place, one.at], 1)[keep]
        self._rows += len(facts)
        _check(self._rows)
        self._taken.append(
            _Entries(
                facts,
                one.length[keep],
                np.repeat(terms, np.diff(one.starts))[alive],
                row[alive],
                one.count[alive],
            )
        )

    def joined(self) -> _Entries:
        """Return all that was taken."""
        return _Entries(
            np.concatenate([one.facts for one in self._taken]),
            np.concatenate([one.length for one in self._taken]),
            np.concatenate([one.term for one in self._taken]),
            np.concatenate([one.row for one in self._taken]),
            np.concatenate([one.count for one in self._taken]),
        )


def _packed(given: _Entries, names: Sequence[bytes]) -> Postings:
    """Sort rows by document and place, entries by term and row; drop terms without any."""
    order = np.lexsort((given.facts[:, 2], given.facts[:, 1]))
    row = _inverse(order)[given.row].astype(np.uint64)
    key: Keys = given.term.astype(np.uint64) << np.uint64(32) | row << np.uint64(8) | given.count
    key.sort()
    sizes = np.bincount(_terms(key), minlength=len(names))
    used = np.flatnonzero(sizes)
    kept = [names[one] for one in used.tolist()]
    id_, document, place, at = given.facts[order].T
    return Postings(
        id=np.ascontiguousarray(id_),
        document=document.astype(np.int32),
        place=place.astype(np.int32),
        at=np.ascontiguousarray(at),
        length=given.length[order],
        names=np.frombuffer(b"".join(kept), np.uint8),
        ends=_sums([len(one) for one in kept]).astype(np.uint32),
        starts=_sums(sizes[used]),
        row=_rows(key),
        count=key.astype(np.uint8),
    )


def norms(length: Ints, mean: float) -> Floats:
    """Return what is added to a word's count below the line, for each row."""
    return (K1 * (1 - B + B / max(mean, 1.0) * length)).astype(np.float32)


def add(into: Floats, norm: Floats, found: tuple[Ints, NDArray[np.uint8]], weight: float) -> None:
    """Add a term's scores: `weight * count * (k1 + 1) / (count + norm)`."""
    row, count = found
    counted = count.astype(np.float32)
    below = norm.take(row)
    below += counted
    counted *= np.float32(weight * (K1 + 1))
    counted /= below
    np.add.at(into, row, counted)


def idf(total: int, having: int) -> float:
    """Return how much a word tells that `having` of `total` passages have; above 0."""
    return float(np.log1p((total - having + 0.5) / (having + 0.5)))


def _check(count: int) -> None:
    if count > MAX_PASSAGES:
        raise FullError(f"an index has at most {MAX_PASSAGES} passages")


def _rows(key: Keys) -> Ints:
    return ((key >> np.uint64(8)) & np.uint64(MAX_PASSAGES - 1)).astype(np.int32)


def _terms(key: Keys) -> Longs:
    return (key >> np.uint64(32)).astype(np.int64)


def _inverse(order: Array) -> Longs:
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def _sums(sizes: Sequence[int] | Array) -> Longs:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
