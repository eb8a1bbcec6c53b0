"""Scores of each passage of a collection, before words and vectors are weighed."""

from dataclasses import dataclass

from skerry_recall.numbers import Floats, Ints, Longs, Mask


@dataclass(frozen=True, slots=True)
class Scores:
    """One row a passage, ordered by document and place: neighbours of a text are neighbours here.

    The arrays belong to one state of the collection, which later changes leave as it is. They are
    not to be written to.
    """

    text: Floats
    """BM25, 0 where no word is shared."""
    vector: Floats | None
    """Cosine, -1 to 1, exact among the best and estimated elsewhere; None without a question vector
    or without vectors. A passage that has none has one that its words speak for."""
    id: Longs
    """Id of the passage."""
    document: Ints
    place: Ints
    at: Longs
    """Its date in ms since 1970, or -1."""
    length: Ints
    """Number of terms in each passage."""
    possible: float
    """About the text score of a passage with each term once, those that no passage has too."""
    mask: Mask | None = None
    """Rows that may be found; None allows all. The others still count as neighbours."""

    def __len__(self) -> int:
        """Returns how many rows there are."""
        return len(self.id)
