"""Keeps hits from repeating one another: maximal marginal relevance, near-duplicates dropped."""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

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
    relevance: Sequence[float], sets: Sequence[AbstractSet[str]], balance: float, limit: int
) -> Iterator[tuple[int, float]]:
    """Yield up to `limit` positions, each with the value by which it was chosen.

    Maximal marginal relevance (Carbonell and Goldstein, 1998): of those left, the next is that with
    the highest `balance * relevance - (1 - balance) * similarity`, where the relevance is scaled to
    0..1 and the similarity is the highest Jaccard index with one already chosen. Takes
    `limit * len(sets)` comparisons.
    """
    low, high = min(relevance, default=0.0), max(relevance, default=0.0)
    spread = high - low
    scaled = [(value - low) / spread if spread else 1.0 for value in relevance]
    nearest = [0.0] * len(sets)
    left = list(range(len(sets)))
    while left and limit > 0:
        values = [balance * scaled[at] - (1 - balance) * nearest[at] for at in left]
        value = max(values)
        chosen = left.pop(values.index(value))
        yield chosen, value
        limit -= 1
        for at in left:
            nearest[at] = max(nearest[at], jaccard(sets[at], sets[chosen]))


def distinct(sets: Iterable[AbstractSet[str]], threshold: float) -> Iterator[int]:
    """Yield the positions of those that do not repeat an earlier one that was kept.

    One repeats another from a Jaccard index of `threshold` on. Lazy: whoever needs six reads about
    as many.
    """
    kept: list[AbstractSet[str]] = []
    for position, mine in enumerate(sets):
        if all(jaccard(mine, other) < threshold for other in kept):
            kept.append(mine)
            yield position
