"""Reduces repetition among hits: MMR, dropped repeats, newer statements first."""

import re
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

_TOKEN = re.compile(r"\w+")
ALIKE: Final = 0.25
"""Minimum Jaccard index of near-equal texts."""


def tokens(text: str) -> frozenset[str]:
    """Returns the set of lower-cased words of a text."""
    return frozenset(_TOKEN.findall(text.lower()))


def jaccard(first: AbstractSet[str], second: AbstractSet[str]) -> float:
    """Returns the Jaccard index of two sets, 0 to 1; that of two empty sets is 1."""
    if not first and not second:
        return 1.0
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


def marginal(
    relevance: Sequence[float], sets: Sequence[AbstractSet[str]], balance: float, limit: int
) -> Iterator[tuple[int, float]]:
    """Yields up to `limit` positions, each with its MMR value.

    Maximal marginal relevance (Carbonell and Goldstein, 1998): the next position is the remaining
    one with the highest `balance * relevance - (1 - balance) * similarity`. The relevance is scaled
    to 0..1; the similarity is the highest Jaccard index with a position chosen before. Takes
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
    """Returns the first and the newest position of each key, in the order of first positions.

    Among equal dates the first position counts as the newest.
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

    Two texts are near-equal if their Jaccard index is at least `ALIKE`, their scores differ by at
    most `margin`, and both contain the same of the question's `terms`, at least one. Texts without
    a date keep their positions. Takes n * n / 2 comparisons.
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
