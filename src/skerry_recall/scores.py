"""Scores of each passage of a collection, before the weighing of words and vectors."""

from dataclasses import dataclass

from skerry_recall.numbers import Floats, Ints, Longs, Mask


@dataclass(frozen=True, slots=True)
class Scores:
    """One row per passage, ordered by document and position, so that neighbours are adjacent.

    The arrays belong to one state of the collection, which later changes do not affect. Do not
    write to them.
    """

    text: Floats
    """BM25, 0 where no word is shared."""
    vector: Floats | None
    """Cosine, -1 to 1: exact for the best, an estimate for others; None without a question vector
    or without vectors. The cosine of a passage without a vector is estimated from its words."""
    id: Longs
    """Id of the passage."""
    document: Ints
    position: Ints
    at: Longs
    """Its date in ms since 1970, or -1."""
    length: Ints
    """Number of terms in each passage."""
    possible: float
    """Approximate text score of a passage with all terms of the question once each."""
    mask: Mask | None = None
    """Rows that may be hits; None allows all. The other rows still count as neighbours."""

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.id)
