"""Keeps hits from repeating one another: maximal marginal relevance, near-duplicates dropped."""

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

Words = Callable[[int], AbstractSet[str]]
"""The lower-cased tokens of the passage in this row."""

_TOKEN = re.compile(r"\w+")


def tokens(text: str) -> frozenset[str]:
    """Return the set of lower-cased words of a text."""
    return frozenset(_TOKEN.findall(text.lower()))


def jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Return the share of the tokens of both that both have, 0 to 1; two empty sets are equal."""
    if not one and not other:
        return 1.0
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def marginal(
    rows: Sequence[int], relevance: Sequence[float], words: Words, balance: float, limit: int
) -> Iterator[tuple[int, float]]:
    """Yield up to `limit` positions in `rows`, each with the value by which it was chosen.

    Maximal marginal relevance (Carbonell and Goldstein, 1998): of those left, the next is that with
    the highest `balance * relevance - (1 - balance) * similarity`, where the relevance is scaled to
    0..1 over `rows` and the similarity is the highest Jaccard index with one already chosen. Takes
    `limit * len(rows)` comparisons.
    """
    low, high = min(relevance, default=0.0), max(relevance, default=0.0)
    spread = high - low
    scaled = [(value - low) / spread if spread else 1.0 for value in relevance]
    sets = [words(row) for row in rows]
    nearest = [0.0] * len(rows)
    left = list(range(len(rows)))
    while left and limit > 0:
        values = [balance * scaled[i] - (1 - balance) * nearest[i] for i in left]
        value = max(values)
        chosen = left.pop(values.index(value))
        yield chosen, value
        limit -= 1
        for i in left:
            nearest[i] = max(nearest[i], jaccard(sets[i], sets[chosen]))


def distinct(rows: Sequence[int], words: Words, threshold: float) -> Iterator[int]:
    """Yield the positions in `rows` whose passage does not repeat that of an earlier one.

    A passage repeats another from a Jaccard index of `threshold` on. Lazy: whoever needs six hits
    reads about as many passages.
    """
    kept: list[AbstractSet[str]] = []
    for position, row in enumerate(rows):
        mine = words(row)
        if all(jaccard(mine, other) < threshold for other in kept):
            kept.append(mine)
            yield position
