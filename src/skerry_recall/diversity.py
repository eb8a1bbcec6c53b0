"""Keeps hits from repeating one another: MMR, repeats dropped, the newer first."""

import re
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

_TOKEN = re.compile(r"\w+")
ALIKE: Final = 0.25
"""The Jaccard index from which on two texts say nearly the same."""


def tokens(text: str) -> frozenset[str]:
    """Returns the set of lower-cased words of a text."""
    return frozenset(_TOKEN.findall(text.lower()))


def jaccard(first: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Returns the share of the tokens of both that both have, 0 to 1; two empty sets are equal."""
    if not first and not other:
        return 1.0
    shared = len(first & other)
    return shared / (len(first) + len(other) - shared)


def marginal(
    relevance: Sequence[float], sets: Sequence[AbstractSet[str]], balance: float, limit: int
) -> Iterator[tuple[int, float]]:
    """Yields up to `limit` positions, each with the value by which it was chosen.

    Maximal marginal relevance (Carbonell and Goldstein, 1998): of those left, the next is that with
    the highest `balance * relevance - (1 - balance) * similarity`, where the relevance is scaled to
    0..1 and the similarity is the highest Jaccard index with one already chosen. Takes
    `limit * len(sets)` comparisons.
    """
    low, high = min(relevance, default=0.0), max(relevance, default=0.0)
    spread = high - low
    scaled = [(value - low) / spread if spread else 1.0 for value in relevance]
    nearest = [0.0] * len(sets)
    remaining = list(range(len(sets)))
    while remaining and limit > 0:
        values = [balance * scaled[at] - (1 - balance) * nearest[at] for at in remaining]
        value = max(values)
        chosen = remaining.pop(values.index(value))
        yield chosen, value
        limit -= 1
        for at in remaining:
            nearest[at] = max(nearest[at], jaccard(sets[at], sets[chosen]))


def newest(keys: Sequence[Hashable], dates: Sequence[int]) -> list[tuple[int, int]]:
    """Returns for each key, in the order of first positions, that position and the newest one.

    Of those with equal dates the first counts.
    """
    first: dict[Hashable, int] = {}
    newest_of: dict[Hashable, int] = {}
    for position, key in enumerate(keys):
        first.setdefault(key, position)
        if key not in newest_of or dates[position] > dates[newest_of[key]]:
            newest_of[key] = position
    return [(position, newest_of[key]) for key, position in first.items()]


def newer_first(
    sets: Sequence[AbstractSet[str]],
    dates: Sequence[int],
    scores: Sequence[float],
    margin: float,
    terms: AbstractSet[str],
) -> list[int]:
    """Returns the positions, with the newer ones of near-equal texts before the older ones.

    Texts are near-equal where their Jaccard index is `ALIKE` at least, their scores differ by
    `margin` at most, and have the same of the words that are `asked` for, one at least.
    Those without a date stay where they are. Takes half the square of
    their number of comparisons.
    """
    order = list(range(len(sets)))
    for at, best in enumerate(order):
        if dates[best] < 0 or not sets[best] & terms:
            continue
        near = [
            index
            for index in range(at, len(order))
            if dates[order[index]] >= 0
            and scores[best] - scores[order[index]] <= margin
            and sets[best] & terms == sets[order[index]] & terms
            and jaccard(sets[best], sets[order[index]]) >= ALIKE
        ]
        latest = max(near, key=lambda index: dates[order[index]], default=at)
        if dates[order[latest]] > dates[best]:
            order.insert(at, order.pop(latest))
    return order
