"""Passages of each term, with counts: sorted lists, ready to be mapped from a file.

A query computes the scores from the counts (BM25, Robertson and Zaragoza 2009, "The Probabilistic
Relevance Framework"), so that they do not depend on the order of changes. On one core a list costs
3 ns per passage, and a whole query at 100,000 passages well below 1 ms: no list has to be skipped,
and a word of a single passage always finds it.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skerry_recall.arrays import Array, Arrays
from skerry_recall.language import LANGUAGE_WORDS, guess
from skerry_recall.numbers import Floats, Ints, Longs, Mask
from skerry_recall.passage import Passage
from skerry_recall.terms import FormCache, Words

K1: Final = 1.2
B: Final = 0.3
MAX_PASSAGES: Final = 1 << 24
"""Limit on the passages of one index: the sort keys have 24 bits for the row."""
MAX_TEXT: Final = 100_000
"""Characters of a passage that are indexed."""
MAX_COUNT: Final = 255
"""Maximum count of a term in a passage."""
_BATCH: Final = 4096
_BLOCK: Final = 1 << 20
"""Entries that are copied at once: 8 MB."""

Keys = NDArray[np.uint64]


class FullError(ValueError):
    """Error: an index would have more than `MAX_PASSAGES` passages."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages of an index, ordered by document and place, and their terms.

    The field names are the names of the arrays in the index file.
    """

    id: Longs
    document: Ints
    place: Ints
    at: Longs
    length: Ints
    """Terms of each passage."""
    names: NDArray[np.uint8]
    """The terms in UTF-8, sorted, end to end."""
    ends: NDArray[np.uint32]
    """Offset of each term in `names`, and the end of the last."""
    starts: Longs
    """Offset of each term's passages in `row`, and the end of the last."""
    row: Ints
    count: NDArray[np.uint8]

    def __len__(self) -> int:
        """Returns the number of passages."""
        return len(self.id)

    def arrays(self) -> Arrays:
        """Returns its fields by name, as the arguments of `Postings(**arrays)`."""
        return {name: getattr(self, name) for name in self.__slots__}

    def find(self, term: str) -> tuple[Ints, NDArray[np.uint8]]:
        """Returns the rows with the term, ascending, and its count in each."""
        encoded = term.encode()
        names, ends = self.names.data, self.ends.data
        low, high = 0, len(self.ends) - 1
        while low < high:
            middle = (low + high) // 2
            if bytes(names[ends[middle] : ends[middle + 1]]) < encoded:
                low = middle + 1
            else:
                high = middle
        if low < len(self.ends) - 1 and bytes(names[ends[low] : ends[low + 1]]) == encoded:
            begin, end = self.starts[low : low + 2]
            return self.row[begin:end], self.count[begin:end]
        return self.row[:0], self.count[:0]

    def terms(self) -> list[bytes]:
        """Returns all terms in UTF-8, sorted."""
        names, ends = bytes(self.names.data), self.ends.tolist()
        return [names[begin:end] for begin, end in pairwise(ends)]


def build(passages: Iterable[Passage], words: Words) -> Postings:
    """Returns the postings of the passages; takes about 25 us of CPU for a passage of 150 words.

    Raises:
        FullError: there are more than `MAX_PASSAGES`.
        ValueError: two passages have the same id.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    by_language = {
        language: _numbered(words.of_language(language), numbers) for language in LANGUAGE_WORDS
    }
    facts = array("q")
    keys: list[Keys] = []
    lengths = array("i")
    rest = iter(passages)
    while batch := list(islice(rest, _BATCH)):
        begin = len(lengths)
        counts = [by_language[guess(passage.text)].of(passage.text[:MAX_TEXT]) for passage in batch]
        lengths.extend(map(len, counts))
        _check(len(lengths))
        for passage in batch:
            facts.extend(
                (
                    passage.id,
                    passage.document,
                    passage.position,
                    -1 if passage.at is None else passage.at,
                )
            )
        term = np.fromiter(chain.from_iterable(counts), np.uint64, sum(lengths[begin:]))
        row = np.repeat(np.arange(begin, len(lengths), dtype=np.uint64), lengths[begin:])
        key, count = np.unique(term << np.uint64(24) | row, return_counts=True)
        keys.append(key << np.uint64(8) | np.minimum(count, MAX_COUNT).astype(np.uint64))
    rows = np.array(facts, np.int64).reshape(-1, 4)
    if len(np.unique(rows[:, 0])) < len(rows):
        raise ValueError("two passages have the same id")
    names = [number.encode() for number in numbers]
    order = sorted(range(len(names)), key=names.__getitem__)
    return _packed(
        rows,
        np.array(lengths, np.int32),
        [names[number] for number in order],
        sum(map(len, keys)),
        _renumbered(keys, _inverse(np.array(order, np.int64))),
    )


def _numbered(terms: FormCache[str], numbers: Mapping[str, int]) -> FormCache[int]:
    """Returns a cache of the numbers of each form's terms."""
    return FormCache(lambda form: map(numbers.__getitem__, terms[form]))


def merge(parts: Sequence[tuple[Postings, Mask | None]]) -> Postings:
    """Returns the rows of all parts as one, without those whose mask is False.

    Raises:
        FullError: there are more than `MAX_PASSAGES`.
    """
    parts = [(part, mask) for part, mask in parts if len(part)]
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0]
    names = sorted(set[bytes]().union(*(part.terms() for part, _ in parts)))
    number = {name: at for at, name in enumerate(names)}
    facts, lengths = [np.empty((0, 4), np.int64)], [np.empty(0, np.int32)]
    entries: list[Iterator[Keys]] = []
    rows = 0
    for part, mask in parts:
        keep = np.ones(len(part), np.bool_) if mask is None else mask
        new_rows = np.where(keep, np.cumsum(keep) + (rows - 1), -1)
        terms = np.array([number[name] for name in part.terms()], np.int64)
        entries.append(_entries(part, new_rows, terms))
        facts.append(np.stack([part.id, part.document, part.place, part.at], 1)[keep])
        lengths.append(part.length[keep])
        rows += len(lengths[-1])
        _check(rows)
    max_entries = sum(len(part.row) for part, _ in parts)
    return _packed(
        np.concatenate(facts),
        np.concatenate(lengths),
        names,
        max_entries,
        chain.from_iterable(entries),
    )


def selected(part: Postings, keep: Mask) -> Postings:
    """Returns the rows whose mask is True, with their terms; costs no sorting."""
    new_rows = np.cumsum(keep) - 1
    alive = keep[part.row]
    starts = np.append(0, np.cumsum(alive))[part.starts]
    used = np.flatnonzero(np.diff(starts))
    names = part.terms()
    kept_names = [names[number] for number in used.tolist()]
    return Postings(
        id=part.id[keep],
        document=part.document[keep],
        place=part.place[keep],
        at=part.at[keep],
        length=part.length[keep],
        names=np.frombuffer(b"".join(kept_names), np.uint8),
        ends=_sums([len(name) for name in kept_names]).astype(np.uint32),
        starts=np.append(starts[used], starts[-1]),
        row=new_rows[part.row[alive]].astype(np.int32),
        count=part.count[alive],
    )


def _renumbered(keys: list[Keys], number: Longs) -> Iterator[Keys]:
    """Yields the entries with the numbers of their terms replaced; empties the list."""
    while keys:
        merged = keys.pop()
        yield _keys(number[_terms(merged)], merged.astype(np.uint32))


def _entries(part: Postings, new_rows: Longs, terms: Longs) -> Iterator[Keys]:
    """Yields the entries whose row has a new number, not -1, about `_BLOCK` at a time."""
    whole = np.arange(0, len(part.row), _BLOCK)
    bounds = np.unique([*np.searchsorted(part.starts, whole), len(part.starts) - 1]).tolist()
    for low, high in pairwise(bounds):
        begin, end = part.starts[low], part.starts[high]
        row = new_rows[part.row[begin:end]]
        alive = row >= 0
        term = np.repeat(terms[low:high], np.diff(part.starts[low : high + 1]))[alive]
        yield _keys(
            term, row[alive].astype(np.uint32) << np.uint32(8) | part.count[begin:end][alive]
        )


def _packed(
    facts: Longs, length: Ints, names: Sequence[bytes], max_entries: int, entries: Iterable[Keys]
) -> Postings:
    """Sorts rows by document and place, entries by term and row; drops terms without any.

    Args:
        facts: Id, document, place and date of each row, in any order.
        length: Terms of each row.
        names: The terms, sorted.
        max_entries: Limit on the number of entries.
        entries: Number of a term, row, count, in 32, 24 and 8 bits. They are copied into one array
            and sorted in place: a copy of a large index takes a fourth of a gigabyte.

    """
    order = np.lexsort((facts[:, 2], facts[:, 1]))
    moved = _inverse(order).astype(np.uint32) << np.uint32(8)
    key, total = np.empty(max_entries, np.uint64), 0
    for some in entries:
        low = moved[_rows(some)] | some.astype(np.uint8)
        key[total : total + len(some)] = _keys(_terms(some), low)
        total += len(some)
    key = key[:total]
    key.sort()
    starts = np.searchsorted(key, np.arange(len(names) + 1, dtype=np.uint64) << np.uint64(32))
    used = np.flatnonzero(np.diff(starts))
    kept_names = [names[number] for number in used.tolist()]
    low = key.astype(np.uint32)
    count = low.astype(np.uint8)
    low >>= np.uint32(8)
    id_, document, position, at = facts[order].T
    return Postings(
        id=np.ascontiguousarray(id_),
        document=document.astype(np.int32),
        place=position.astype(np.int32),
        at=np.ascontiguousarray(at),
        length=length[order],
        names=np.frombuffer(b"".join(kept_names), np.uint8),
        ends=_sums([len(name) for name in kept_names]).astype(np.uint32),
        starts=np.append(starts[used], total),
        row=low.view(np.int32),
        count=count,
    )


def norms(length: Ints, mean: float) -> Floats:
    """Returns the length term of each row, which the denominator adds to a term's count."""
    return (K1 * (1 - B + B / max(mean, 1.0) * length)).astype(np.float32)


def add(into: Floats, norm: Floats, counts: tuple[Ints, NDArray[np.uint8]], weight: float) -> None:
    """Adds a term's scores: `weight * count * (k1 + 1) / (count + norm)`."""
    row, count = counts
    counted = count.astype(np.float32)
    below = norm.take(row)
    below += counted
    counted *= np.float32(weight * (K1 + 1))
    counted /= below
    np.add.at(into, row, counted)


def idf(total: int, count: int) -> float:
    """Returns the inverse document frequency of a term in `count` of `total` passages; above 0."""
    return float(np.log1p((total - count + 0.5) / (count + 0.5)))


def _check(count: int) -> None:
    if count > MAX_PASSAGES:
        raise FullError(f"{count} passages are too many for an index; the limit is {MAX_PASSAGES}")


def _keys(term: Longs, low: NDArray[np.uint32]) -> Keys:
    """Returns the entries for term numbers and the low 32 bits, row and count."""
    key = term.astype(np.uint64)
    key <<= np.uint64(32)
    key |= low
    return key


def _rows(key: Keys) -> Longs:
    return (key.astype(np.uint32) >> np.uint32(8)).astype(np.int64)


def _terms(key: Keys) -> Longs:
    return (key >> np.uint64(32)).astype(np.int64)


def _inverse(order: Array) -> Longs:
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return positions


def _sums(sizes: Sequence[int] | Array) -> Longs:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
