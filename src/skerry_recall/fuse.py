"""Makes one ranking of what words and meaning say: normalise, weigh, smooth, decay, diversify."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skerry_recall.diverse import Words, distinct, marginal
from skerry_recall.scores import Floats, Ints, Longs, Mask, Scores

DAY_MS: Final = 86_400_000
CANDIDATES: Final = 4
"""Hits among which maximal marginal relevance chooses, for each that is wanted."""
_BLOCK: Final = 128

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Near:
    """How much a passage gets of the scores of its neighbours, and of those one further."""

    beside: float = 0.0
    beyond: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """How words and meaning are weighed. The weights count by their ratio, whatever their sum."""

    name: str
    vector_weight: float
    text_weight: float
    candidates: int | None = None
    """None: every row is weighed, with the scores of each side scaled to 0..1 over all of them.
    Else: only the best of each side are, this many for each hit that is wanted, by `1 / (1 + rank)`
    of the words (0 for the best) and by the cosine."""
    text_near: Near = Near()
    vector_near: Near = Near()
    distinct: float | None = None
    """The Jaccard index from which on a passage repeats a better one and is dropped."""


BEST: Final = Profile(
    "best", 0.5, 0.5, text_near=Near(0.4, 0.2), vector_near=Near(0.1, 0.1), distinct=0.9
)
"""Chosen by measurement (docs/recall.md)."""
OPENCLAW: Final = Profile("openclaw", 0.7, 0.3, candidates=4)
"""OpenClaw's weights for its long-term memory."""
CLASSIC: Final = Profile("classic", 0.6, 0.4, candidates=4)
"""OpenClaw's updated formula."""
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {profile.name: profile for profile in (BEST, OPENCLAW, CLASSIC)}
)


@dataclass(frozen=True, slots=True)
class Decay:
    """What age takes from the score of a dated passage; one without a date keeps all of it."""

    now: int
    """Milliseconds since 1970 from which the age counts."""
    half_life: float = 30.0
    """Days in which a score halves; above 0."""
    floor: float = 0.0
    """The share of the score that no age takes, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may follow the weighing. Without `words` nothing is compared: no MMR, none dropped."""

    min_score: float = 0.0
    """Hits below are left out. When that leaves none, those that have a word of the question stay
    from the weight of the words on: a lone exact hit is never hidden."""
    decay: Decay | None = None
    mmr: float | None = None
    """Lambda of maximal marginal relevance: 1 is relevance alone, 0.7 is usual."""
    words: Words | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row that was found."""

    row: int
    score: float
    """0 to 1."""
    explanation: Sequence[tuple[str, float]]
    """The parts of the score by name, in the order in which they were applied."""


@dataclass(frozen=True, slots=True)
class _Side:
    """What words or meaning say, over all rows."""

    name: str
    raw: Floats
    near: Floats
    """With the neighbours' share."""
    part: Floats
    """What it adds to the score of each row, 0 where it did not find it."""
    found: Mask | None
    """None is all."""

    def parts(self, row: int) -> Iterator[tuple[str, float]]:
        """Yield what this side says of a row, its rank counted from 1."""
        if self.part[row] <= 0:
            return
        yield self.name, float(self.raw[row])
        yield f"{self.name}.rank", float(np.count_nonzero(self.raw > self.raw[row]) + 1)
        if self.near is not self.raw:
            yield f"{self.name}.near", float(self.near[row] - self.raw[row])
        yield f"{self.name}.part", float(self.part[row])


def rank(scores: Scores, profile: Profile, limit: int, options: Options) -> list[Ranked]:
    """Return up to `limit` rows, the best first; rows of equal score in their order.

    The stages are those of the seeds: union, weighted sum, decay, MMR. Without `candidates` in the
    profile every row is weighed; with it, a row that only one side found stays in, with what that
    side says. Costs some 20 passes over the arrays: 1 to 2 ms of CPU for 100,000 rows.
    """
    if limit <= 0 or not len(scores):
        return []
    sides = _sides(scores, profile, limit)
    total, found = sides[0].part, sides[0].found
    for side in sides[1:]:
        total = total + side.part
        found = None if found is None or side.found is None else found | side.found
    if scores.mask is not None:
        total = total * scores.mask
        found = scores.mask if found is None else found & scores.mask
    fresh = None if options.decay is None else decayed(scores.at, options.decay)
    if fresh is not None:
        total = total * fresh
    rows = top(total, limit * CANDIDATES, found)
    rows = _passing(rows, total, scores.text, profile.text_weight, options.min_score)
    hits: list[Ranked] = []
    for row, value in islice(_ordered(rows, total, profile, options, limit), limit):
        parts = [part for side in sides for part in side.parts(row)]
        parts += [] if fresh is None else [("decay", float(fresh[row]))]
        parts += [] if value is None else [("mmr", value)]
        hits.append(Ranked(row, float(total[row]), tuple(parts)))
    return hits


def smoothed(scores: Floats, document: Ints, near: Near) -> Floats:
    """Return each score with a share of those of its neighbours in the same document.

    `s'(i) = s(i) + beside * (s(i-1) + s(i+1)) + beyond * (s(i-2) + s(i+2))`: an answer often
    stands beside the passage that has the question's words.
    """
    shares = [(1, near.beside), (2, near.beyond)]
    if not any(share for _, share in shares):
        return scores
    out = scores.copy()
    for distance, share in shares:
        if share and len(scores) > distance:
            same = (document[distance:] == document[:-distance]) * np.float32(share)
            out[distance:] += same * scores[:-distance]
            out[:-distance] += same * scores[distance:]
    return out


def decayed(at: Longs, decay: Decay) -> Floats:
    """Return the factor by which age multiplies each score: `exp(-ln 2 / half-life * age)`.

    With a floor, `floor + (1 - floor) * factor`. What has no date, or one after now, has 1.
    """
    age = (decay.now - at).astype(np.float32)
    age *= (at >= 0) & (age > 0)
    age *= np.float32(-math.log(2) / decay.half_life / DAY_MS)
    factor: Floats = np.exp(age)
    if decay.floor:
        factor *= np.float32(1 - decay.floor)
        factor += np.float32(decay.floor)
    return factor


def top(scores: Floats, count: int, found: Mask | None = None) -> Rows:
    """Return the rows of the `count` highest scores, the best first, ties in row order.

    No score is below 0, and what is not `found` has 0. The `count`-th highest of the maxima of
    blocks is a bound that at least `count` rows reach: sorting those few is ten times cheaper than
    partitioning all.
    """
    bound = np.float32(0)
    blocks = len(scores) // _BLOCK
    if blocks > count:
        peaks = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
        bound = np.partition(peaks, blocks - count)[blocks - count]
    if bound > 0:
        rows = np.flatnonzero(scores >= bound)
    else:
        rows = np.arange(len(scores)) if found is None else np.flatnonzero(found)
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


def _sides(scores: Scores, profile: Profile, limit: int) -> list[_Side]:
    """Return the sides there are; the weights of both make 1, one alone has all of it."""
    if scores.vector is None:
        return [_text(scores, profile, 1.0, limit)]
    weight = profile.text_weight / (profile.text_weight + profile.vector_weight)
    return [
        _text(scores, profile, weight, limit),
        _vector(scores, scores.vector, profile, 1 - weight, limit),
    ]


def _text(scores: Scores, profile: Profile, weight: float, limit: int) -> _Side:
    """Weigh what shares words with the question, or stands beside such a passage."""
    near = smoothed(scores.text, scores.document, profile.text_near)
    allowed = near if scores.mask is None else near * scores.mask
    if profile.candidates is None:
        high = float(allowed.max())
        part = allowed * np.float32(weight / high if high > 0 else 0)
        return _Side("text", scores.text, near, part, part > 0)
    rows = top(allowed, limit * profile.candidates, allowed > 0)
    return _few("text", scores.text, rows, weight / (1 + np.arange(len(rows))))


def _vector(scores: Scores, raw: Floats, profile: Profile, weight: float, limit: int) -> _Side:
    """Weigh by meaning, which finds every passage that may be found."""
    near = smoothed(raw, scores.document, profile.vector_near)
    if profile.candidates is None:
        among = near if scores.mask is None else near[scores.mask]
        low, high = (float(among.min()), float(among.max())) if len(among) else (0.0, 0.0)
        if high > low:
            part = near - np.float32(low)
            part *= np.float32(weight / (high - low))
        else:
            part = np.full_like(near, weight)
        return _Side("vector", raw, near, part, None)
    allowed = np.maximum(raw, 0)
    if scores.mask is not None:
        allowed *= scores.mask
    rows = top(allowed, limit * profile.candidates, scores.mask)
    return _few("vector", raw, rows, allowed[rows] * weight)


def _few(name: str, raw: Floats, rows: Rows, values: NDArray[np.floating]) -> _Side:
    """Return a side that found only these rows, each with its share of the score."""
    part = np.zeros_like(raw)
    part[rows] = values
    found = np.zeros(len(raw), np.bool_)
    found[rows] = True
    return _Side(name, raw, raw, part, found)


def _passing(rows: Rows, total: Floats, text: Floats, weight: float, floor: float) -> Rows:
    """Return the rows from the lowest score on; where there is none, those the words found."""
    strict = rows[total[rows] >= floor]
    if len(strict) or floor <= 0:
        return strict
    return rows[(text[rows] > 0) & (total[rows] >= min(floor, weight))]


def _ordered(
    rows: Rows, total: Floats, profile: Profile, options: Options, limit: int
) -> Iterator[tuple[int, float | None]]:
    """Yield the rows in their last order, with the value by which MMR chose them, if it did."""
    listed = [int(row) for row in rows]
    if options.words is None:
        yield from ((row, None) for row in listed)
        return
    if profile.distinct is not None:
        kept = distinct(listed, options.words, profile.distinct)
        listed = [listed[i] for i in islice(kept, None if options.mmr else limit)]
    if options.mmr is None:
        yield from ((row, None) for row in listed)
        return
    relevance = [float(total[row]) for row in listed]
    for position, value in marginal(listed, relevance, options.words, options.mmr, limit):
        yield listed[position], value
