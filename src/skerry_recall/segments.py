"""Parts of a collection, and their changes when passages are added and removed (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from skerry_recall.arrays import Arrays
from skerry_recall.numbers import Floats, Longs, Mask
from skerry_recall.postings import Postings, merge, selected
from skerry_recall.vectors import MAX_DIMENSIONS, SMALL, VectorStore, pack, selected_vectors

RECENT: Final = 2000
"""Number of passages or vectors in the small part above which the large part is rewritten"""
SHARE: Final = 20
"""unless they are fewer than 1 / `SHARE` of the large part."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Passages of the large part that were removed from the collection."""

    id: Longs

    def arrays(self) -> Arrays:
        """Returns the ids by name."""
        return {"id": self.id}


def _no_vectors() -> VectorStore:
    return pack(np.empty(0, np.int64), np.empty((0, 0), np.float32))


def _no_words() -> Postings:
    return merge([])


@dataclass(frozen=True, slots=True)
class SegmentParts:
    """A large part that seldom changes, a small part of later additions, and the removed ids.

    If both parts have a passage, the one of the small part counts.
    """

    words: Postings = field(default_factory=_no_words)
    recent_words: Postings = field(default_factory=_no_words)
    removed: Removed = field(default_factory=lambda: Removed(np.empty(0, np.int64)))
    vectors: VectorStore = field(default_factory=_no_vectors)
    recent_vectors: VectorStore = field(default_factory=_no_vectors)
    model: str = ""


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """Passages added and removed."""

    added: Postings
    removed: Longs
    vectors: Mapping[int, Floats]
    model: str | None
    """Model of the vectors; None is the present model."""


def changed(parts: SegmentParts, change: SegmentChange) -> SegmentParts:
    """Returns the parts after the change; those that do not differ are the same objects.

    Raises:
        ValueError: there are too many passages, or a vector is not valid.
    """
    replaced = np.union1d(change.removed, change.added.id)
    words = parts.words
    if len(replaced):
        replaced_ids = words.id[np.isin(words.id, replaced)]
        recent = merge(
            [
                (parts.recent_words, _kept_mask(parts.recent_words.id, replaced)),
                (change.added, None),
            ]
        )
        removed = (
            Removed(np.union1d(parts.removed.id, replaced_ids))
            if len(replaced_ids)
            else parts.removed
        )
        parts = replace(parts, recent_words=recent, removed=removed)
    if change.model is not None and change.model != parts.model:
        none = _no_vectors()
        parts = replace(parts, vectors=none, recent_vectors=none, model=change.model)
    if change.vectors or len(change.removed):
        parts = replace(parts, recent_vectors=_with_vectors(parts, change))
    return _settled(parts)


def compacted(parts: SegmentParts) -> SegmentParts:
    """Returns the parts with all passages in the large part and the other parts empty."""
    return _with_large_vectors(_with_large_words(parts))


def purged(parts: SegmentParts) -> SegmentParts:
    """Returns the parts without removed and replaced passages in the large part."""
    words, vectors = parts.words, parts.vectors
    keep = _kept_mask(words.id, np.union1d(parts.removed.id, parts.recent_words.id))
    if keep is not None:
        words = selected(words, keep)
    removed = Removed(np.empty(0, np.int64)) if len(parts.removed.id) else parts.removed
    keep = np.isin(vectors.id, _ids(parts)) & ~np.isin(vectors.id, parts.recent_vectors.id)
    if not keep.all():
        vectors = selected_vectors(vectors, keep)
    return replace(parts, words=words, removed=removed, vectors=vectors)


def _settled(parts: SegmentParts) -> SegmentParts:
    """Returns the parts with a large part rewritten if the small part exceeds its limit."""
    recent = max(len(parts.recent_words), len(parts.removed.id))
    if recent > max(RECENT, len(parts.words) // SHARE):
        parts = _with_large_words(parts)
    if len(parts.recent_vectors) > max(RECENT, len(parts.vectors) // SHARE):
        parts = _with_large_vectors(parts)
    return parts


def _with_large_words(parts: SegmentParts) -> SegmentParts:
    words, recent = parts.words, parts.recent_words
    replaced = np.union1d(parts.removed.id, recent.id)
    merged = merge([(words, _kept_mask(words.id, replaced)), (recent, None)])
    return replace(
        parts, words=merged, recent_words=_no_words(), removed=Removed(np.empty(0, np.int64))
    )


def _with_large_vectors(parts: SegmentParts) -> SegmentParts:
    """Returns the parts with all vectors of passages in the large part, ordered as the passages."""
    old, recent = parts.vectors, parts.recent_vectors
    ids = np.concatenate([old.id, recent.id])
    if not len(ids):
        return replace(parts, vectors=_no_vectors(), recent_vectors=_no_vectors())
    row_of = {passage: row for row, passage in enumerate(ids.tolist())}  # the recent one counts
    order = np.array(
        [row_of[passage] for passage in _ids(parts).tolist() if passage in row_of], np.int64
    )
    new_rows = np.full(len(ids), -1)
    new_rows[order] = np.arange(len(order))
    exact = np.empty((len(order), max(old.mean.size, recent.mean.size)), np.float32)
    for segment, first in ((old, 0), (recent, len(old))):
        for begin in range(0, len(segment), SMALL):  # a copy of all vectors would double the memory
            rows = segment.some(begin, begin + SMALL)
            to = new_rows[first + begin : first + begin + len(rows)]
            exact[to[to >= 0]] = rows[to >= 0]
    return replace(parts, vectors=pack(ids[order], exact), recent_vectors=_no_vectors())


def _with_vectors(parts: SegmentParts, change: SegmentChange) -> VectorStore:
    """Returns the small part of the vectors after the change."""
    old = parts.recent_vectors
    passages = np.fromiter(change.vectors, np.int64, len(change.vectors))
    present = (
        frozenset(passages[np.isin(passages, _ids(parts))].tolist())
        if len(passages)
        else frozenset()
    )
    vectors = {passage: vector for passage, vector in change.vectors.items() if passage in present}
    replaced = np.union1d(change.removed, np.fromiter(vectors, np.int64, len(vectors)))
    keep = _kept_mask(old.id, replaced)
    if not vectors:
        return old if keep is None else pack(old.id[keep], old.whole()[keep])
    size = parts.vectors.mean.size or old.mean.size
    exact = _unit(vectors.values(), size)
    if len(old):
        rows = old.whole() if keep is None else old.whole()[keep]
        exact = np.concatenate([rows, exact])
    before = old.id if keep is None else old.id[keep]
    return pack(np.concatenate([before, np.fromiter(vectors, np.int64, len(vectors))]), exact)


def _unit(vectors: Iterable[Floats], size: int) -> Floats:
    """Returns the vectors as rows of length 1."""
    rows = list(vectors)
    size = size or len(rows[0])
    if any(row.shape != (size,) for row in rows) or not 0 < size <= MAX_DIMENSIONS:
        raise ValueError(f"vectors have {size} dimensions, of at most {MAX_DIMENSIONS}")
    exact = np.stack(rows).astype(np.float32)
    length = np.linalg.norm(exact, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not length.all():
        raise ValueError("a vector is not finite, or has length 0")
    normal: Floats = exact / length
    return normal


def _ids(parts: SegmentParts) -> Longs:
    """Returns the ids of the passages, ordered by document and place."""
    words, recent = parts.words, parts.recent_words
    replaced = np.union1d(parts.removed.id, recent.id)
    keep = _kept_mask(words.id, replaced)
    if keep is None and not len(recent):
        return words.id
    pairs = [(words, slice(None) if keep is None else keep), (recent, slice(None))]
    document, position, ids = (
        np.concatenate([getattr(segment, name)[rows] for segment, rows in pairs])
        for name in ("document", "place", "id")
    )
    ordered: Longs = ids[np.lexsort((position, document))]
    return ordered


def _kept_mask(ids: Longs, replaced: Longs) -> Mask | None:
    """Returns a mask of the ids that are not replaced; None if all are kept."""
    mask = np.isin(ids, replaced, invert=True)
    return None if mask.all() else mask
