"""A searchable collection of passages in a folder."""

import math
from collections import Counter
from collections.abc import Collection as Numbers
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from skerry_recall.passage import Passage
from skerry_recall.scores import Floats, Ints, Longs, Mask, Scores
from skerry_recall.terms import Words

K1 = 1.2
B = 0.3


class Collection:
    """Passages with their words and vectors; the folder holds only what can be made again.

    Searching threads see the state before a change or after it, never one between.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._passages: dict[int, Passage] = {}
        self._vectors: dict[int, Floats] = {}
        self._words = Words()

    def ids(self) -> frozenset[int]:
        """Return the ids of the passages that it holds."""
        return frozenset(self._passages)

    def embedded(self) -> frozenset[int]:
        """Return the ids of those that have a vector."""
        return frozenset(self._vectors)

    def refresh(
        self,
        *,
        added: Iterable[Passage] = (),
        removed: Iterable[int] = (),
        vectors: Mapping[int, Floats] | None = None,
    ) -> None:
        """Take passages out and in, and vectors of those that are held, as one change."""
        for one in removed:
            self._passages.pop(one, None)
            self._vectors.pop(one, None)
        self._passages |= {one.id: one for one in added}
        self._vectors |= vectors or {}

    def scores(
        self,
        terms: Mapping[str, float],
        vector: Floats | None = None,
        *,
        documents: Numbers[int] | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Scores:
        """Return how well each passage fits the weighted terms and the vector."""
        rows = sorted(self._passages.values(), key=lambda one: (one.document, one.place))
        found = [Counter(self._words.terms(one.text)) for one in rows]
        lengths = np.array([sum(one.values()) for one in found], np.float32)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean()) if rows else 1.0))
        text = np.zeros(len(rows), np.float32)
        for term, weight in terms.items():
            tf = np.array([one[term] for one in found], np.float32)
            df = int((tf > 0).sum())
            idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
            text += weight * idf * tf * (K1 + 1) / (tf + norm)
        cosine = None
        if vector is not None and self._vectors:
            cosine = np.full(len(rows), np.nan, np.float32)
            for row, one in enumerate(rows):
                if one.id in self._vectors:
                    cosine[row] = self._vectors[one.id] @ vector
            cosine = np.nan_to_num(cosine, nan=float(np.nanmin(cosine)))
        at = np.array([-1 if one.at is None else one.at for one in rows], np.int64)
        document = np.array([one.document for one in rows], np.int32)
        mask = _mask(document, at, documents, since, until)
        return Scores(
            text,
            cosine,
            np.array([one.id for one in rows], np.int64),
            document,
            np.array([one.place for one in rows], np.int32),
            at,
            mask,
        )


def _mask(
    document: Ints, at: Longs, documents: Numbers[int] | None, since: int | None, until: int | None
) -> Mask | None:
    parts: list[Mask] = []
    if documents is not None:
        parts.append(np.isin(document, list(documents)))
    if since is not None:
        parts.append(at >= since)
    if until is not None:
        parts.append((at >= 0) & (at < until))
    return np.logical_and.reduce(parts) if parts else None
