"""Ranks by word and vector scores together: normalise, weigh, smooth, decay, diversify."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np

from skerry_recall import reordering
from skerry_recall.diversity import marginal, tokens
from skerry_recall.numbers import Doubles, Floats, Ints, Longs, Mask, Rows
from skerry_recall.question import ParsedQuestion
from skerry_recall.reordering import POOL, Candidate
from skerry_recall.rerank import Hints
from skerry_recall.scores import Scores

DAY_MS: Final = 86_400_000
CANDIDATES: Final = 4
"""Number of candidates of maximal marginal relevance for each requested hit."""
SHORT: Final = 60
"""Terms up to which a passage, a turn of a conversation, gets the whole share of its neighbours."""
SHORT_VECTOR: Final = 40  # the same for vectors
_BLOCK: Final = 128
_EPSILON: Final = 1e-6
_SPREAD: Final = 0.06
"""Minimum difference of the highest and the lowest cosine to which the scores are scaled."""


@dataclass(frozen=True, slots=True)
class Near:
    """Shares that a passage gets of the scores of its neighbours."""

    adjacent: float = 0.0  # at distance 1
    beyond: float = 0.0  # at distance 2


@dataclass(frozen=True, slots=True)
class Profile:
    """Weights of words and vectors; only their ratio counts, not their sum."""

    name: str
    vector_weight: float
    text_weight: float
    candidates: int | None = None
    """None: every row is weighed, and the scores of each side are scaled to 0..1 over all rows.
    Otherwise only the best rows of each side are weighed, this many for each requested hit: by
    `1 / (1 + rank)` for words, with rank 0 for the best, and by the cosine for vectors."""
    text_near: Near = Near()
    vector_near: Near = Near()
    sure: float = 0.0
    """Share of the question's words, by rarity, in the best passage from which on words have their
    full weight: a question in another language shares few. 0 is always full."""
    distinct: bool = False
    """Drops all but the newest of passages with the same words."""
    newer: float = 0.0
    """Maximum lead in score of the older of two near-equal statements that the newer one passes."""
    hints: Hints | None = None  # weights of signs in the texts of the best passages


BEST: Final = Profile(
    "best",
    0.5,
    0.5,
    text_near=Near(0.6, 0.3),
    vector_near=Near(0.1, 0.1),
    sure=0.4,
    distinct=True,
    newer=0.15,
    hints=Hints(),
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
    """Reduction of a dated passage's score by age; a passage without a date keeps its score."""

    now: int
    """Milliseconds since 1970 from which the age counts."""
    half_life: float = 30.0
    """Days in which a score halves; above 0."""
    floor: float = 0.0
    """Minimum share of the score that remains at any age, 0 to 1."""


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Options of the steps after the weighing. Without `texts` there are no hints and no MMR."""

    min_score: float = 0.0
    """Minimum score of a hit. If no hit reaches it, hits with a word of the question need only the
    weight of the words, so that a single exact hit is never hidden."""
    decay: Decay | None = None
    mmr: float | None = None
    """Lambda of maximal marginal relevance: 1 is relevance alone, 0.7 is usual."""
    question: ParsedQuestion | None = None  # for the hints
    texts: Callable[[Sequence[int]], Sequence[str]] | None = None
    """Returns the texts of rows."""
    scale: tuple[float, float] | None = None
    """Cosines of unrelated texts and of an answer for the model; None if they were not measured."""
    explain: bool = False
    """Adds the parts of its score to each hit; each part costs a pass over all rows."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit: a row with its score."""

    row: int
    score: float  # 0 to 1
    explanation: Sequence[tuple[str, float]]
    """Parts of the score by name, in the order of their application; empty without `explain`."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Scores of words or of vectors, over all rows."""

    name: str
    raw: Floats
    near: Floats  # scores with the neighbours' shares
    part: Floats
    """Amount added to the score of each row; 0 if this side did not match the row."""
    mask: Mask | None
    """Rows that this side matched; None means all."""
    base: float = 0.0  # of the raw scores; neighbours share the difference from it
    unit: float = 0.0  # increase of a row's score for a raw score of 1

    def parts(self, row: int) -> Iterator[tuple[str, float]]:
        """Yields the parts of a row's score on this side; ranks count from 1."""
        if self.part[row] <= 0:
            return
        yield self.name, float(self.raw[row])
        yield f"{self.name}.rank", float(np.count_nonzero(self.raw > self.raw[row]) + 1)
        if self.near is not self.raw:
            yield f"{self.name}.near", float(self.near[row] - self.raw[row] + self.base)
        yield f"{self.name}.part", float(self.part[row])


def rank(scores: Scores, profile: Profile, limit: int, options: RankOptions) -> list[Ranked]:
    """Returns up to `limit` rows, the best first; rows of equal score in their order.

    The stages are union, weighted sum, decay, hints, MMR. A row that only one side matched keeps
    the score of that side. Takes some 20 passes over the arrays, 2 to 3 ms of CPU for 100,000 rows,
    and up to 2 ms for the texts.
    """
    if limit <= 0 or not len(scores):
        return []
    sides = _sides(scores, profile, limit)
    total, mask = sides[0].part, sides[0].mask
    for side in sides[1:]:
        total = total + side.part
        mask = None if mask is None or side.mask is None else mask | side.mask
    if scores.mask is not None:
        total = total * scores.mask
        mask = scores.mask if mask is None else mask & scores.mask
    decay_factors = None if options.decay is None else decayed(scores.at, options.decay)
    if decay_factors is not None:
        total = total * decay_factors
    rows = _rows(total, mask, scores, profile, options, limit)
    candidates = _candidates(rows, total, sides, scores, profile, options)
    candidates = _passing(candidates, scores.text, profile, options.min_score)
    hits: list[Ranked] = []
    for candidate, value in islice(_ordered(candidates, scores, profile, options, limit), limit):
        if not options.explain:
            hits.append(Ranked(candidate.row, candidate.score, ()))
            continue
        parts = [part for side in sides for part in side.parts(candidate.row)]
        parts += [] if decay_factors is None else [("decay", float(decay_factors[candidate.row]))]
        parts += candidate.parts
        parts += [] if value is None else [("mmr", value)]
        hits.append(Ranked(candidate.row, candidate.score, tuple(parts)))
    return hits


def _rows(
    total: Floats,
    mask: Mask | None,
    scores: Scores,
    profile: Profile,
    options: RankOptions,
    limit: int,
) -> Rows:
    """Returns the rows of possible hits, the best first.

    The bonus for days that the question names is added here already: in a large memory such rows
    would miss the limit otherwise.
    """
    count = limit * CANDIDATES
    if profile.hints is None:
        return top(total, count, mask)
    question = options.question
    if question is not None and question.days:
        date_shares = reordering.date_bonuses(scores.at, question, profile.hints)
        if scores.mask is not None:
            date_shares = date_shares * scores.mask
        total = total + date_shares
        mask = None if mask is None else mask | (date_shares > 0)
    return top(total, max(count, POOL), mask)


def smoothed(
    scores: Floats, document: Ints, near: Near, length: Ints | None = None, short: int = SHORT
) -> Floats:
    """Returns each score with a share of those of its neighbours in the same document.

    `s'(i) = s(i) + adjacent * (s(i-1) + s(i+1)) + beyond * (s(i-2) + s(i+2))`: an answer often
    follows the passage with the question's words. Given the lengths, a passage of more than `short`
    terms gets less, and one of at least twice as many gets nothing: it contains its context. A
    passage of more than twice as many gives less: a short neighbour is the rest of its text.
    """
    shares = [(1, near.adjacent), (2, near.beyond)]
    if not any(share for _, share in shares):
        return scores
    brief = None
    unsmoothed = scores
    if length is not None:
        times = length.astype(np.float32) / np.float32(short)
        brief = np.clip(2 - times, 0, 1)
        unsmoothed = scores * np.clip(2 - times / 2, 0, 1)
    gain = np.zeros_like(scores)
    for distance, share in shares:
        if share and len(scores) > distance:
            same = (document[distance:] == document[:-distance]) * np.float32(share)
            gain[distance:] += same * unsmoothed[:-distance]
            gain[:-distance] += same * unsmoothed[distance:]
    if brief is not None:
        gain *= brief
    gain += scores
    return gain


def decayed(at: Longs, decay: Decay) -> Floats:
    """Returns the factor by which age multiplies each score: `exp(-ln 2 / half-life * age)`.

    With a floor, `floor + (1 - floor) * factor`. Without a date, or for one after now, it is 1.
    """
    age = (decay.now - at).astype(np.float32)
    age *= (at >= 0) & (age > 0)
    age *= np.float32(-math.log(2) / decay.half_life / DAY_MS)
    factor: Floats = np.exp(age)
    if decay.floor:
        factor *= np.float32(1 - decay.floor)
        factor += np.float32(decay.floor)
    return factor


def top(scores: Floats, count: int, mask: Mask | None = None) -> Rows:
    """Returns the rows of the `count` highest scores, the best first, ties in row order.

    No score is below 0, and rows outside the mask have 0. With many rows, the `count`-th highest of
    the maxima of blocks is a bound that `count` rows reach: ten times cheaper than a partition.
    """
    bound = np.float32(0)
    blocks = len(scores) // _BLOCK
    if blocks > count:
        peaks = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
        bound = np.partition(peaks, blocks - count)[blocks - count]
    elif len(scores) > count:
        bound = np.partition(scores, len(scores) - count)[len(scores) - count]
    rows = np.flatnonzero(scores >= bound if bound > 0 or mask is None else mask)
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


def _sides(scores: Scores, profile: Profile, limit: int) -> list[_Side]:
    """Returns the sides that have scores; their weights add up to 1."""
    if scores.vector is None:
        return [_text(scores, profile, 1.0, limit)]
    weight = profile.text_weight / (profile.text_weight + profile.vector_weight)
    if profile.sure:
        best = float(_allowed(scores.text, scores.mask).max())
        weight *= min(1.0, best / max(profile.sure * scores.possible, _EPSILON))
    return [
        _text(scores, profile, weight, limit),
        _vector(scores, scores.vector, profile, 1 - weight, limit),
    ]


def _text(scores: Scores, profile: Profile, weight: float, limit: int) -> _Side:
    """Weighs passages that share words with the question, and their neighbours."""
    near = smoothed(scores.text, scores.document, profile.text_near, scores.length)
    allowed = _allowed(near, scores.mask)
    if profile.candidates is None:
        high = float(allowed.max())
        unit = weight / high if high > 0 else 0.0
        part = allowed * np.float32(unit)
        return _Side("text", scores.text, near, part, part > 0, unit=unit)
    rows = top(allowed, limit * profile.candidates, allowed > 0)
    return _side_of_rows("text", scores.text, rows, weight / (1 + np.arange(len(rows))))


def _vector(scores: Scores, raw: Floats, profile: Profile, weight: float, limit: int) -> _Side:
    """Weighs by vectors, which match every allowed passage."""
    if profile.candidates is None:
        # Shares are relative to the mean: the number of neighbours alone must not raise a score.
        mean = float(raw.mean())
        near = smoothed(
            raw - np.float32(mean),
            scores.document,
            profile.vector_near,
            scores.length,
            SHORT_VECTOR,
        )
        among = near if scores.mask is None else near[scores.mask]
        low, high = (float(among.min()), float(among.max())) if len(among) else (0.0, 0.0)
        unit = weight / max(high - low, _SPREAD)
        part = (near - np.float32(low)) * np.float32(unit)
        if high <= low:
            part = np.full_like(near, weight)
        return _Side("vector", raw, near, part, None, mean, unit)
    allowed = _allowed(np.maximum(raw, 0), scores.mask)
    rows = top(allowed, limit * profile.candidates, scores.mask)
    return _side_of_rows("vector", raw, rows, allowed[rows] * weight)


def _allowed(scores: Floats, mask: Mask | None) -> Floats:
    """Returns the scores, with 0 outside the mask."""
    return scores if mask is None else scores * mask


def _side_of_rows(name: str, raw: Floats, rows: Rows, values: Doubles | Floats) -> _Side:
    """Returns a side that matched only these rows, each with its part of the score."""
    part = np.zeros_like(raw)
    part[rows] = values
    mask = np.zeros(len(raw), np.bool_)
    mask[rows] = True
    return _Side(name, raw, raw, part, mask)


def _candidates(
    rows: Rows,
    total: Floats,
    sides: Sequence[_Side],
    scores: Scores,
    profile: Profile,
    options: RankOptions,
) -> list[Candidate]:
    """Returns the candidates with texts if a stage needs them, reordered by the profile's hints."""
    candidates = [Candidate(int(row), float(total[row])) for row in rows]
    if options.texts is None or not (profile.hints or profile.distinct or options.mmr):
        return candidates
    for candidate, text in zip(candidates, options.texts(rows.tolist()), strict=True):
        candidate.text = text
    question, hints = options.question, profile.hints
    if hints is None or question is None:
        return candidates
    nears = (profile.text_near, profile.vector_near)
    shares = [
        (side.raw, side.base, side.unit * near.adjacent, side.unit * near.beyond)
        for side, near in zip(sides, nears, strict=False)
    ]
    reordering.add_neighbour_shares(candidates[:POOL], scores, SHORT, shares)
    candidates = reordering.reordered(candidates, scores, question, hints, profile.newer)
    return reordering.rated(candidates, scores, options.scale)


def _passing(
    candidates: list[Candidate], text: Floats, profile: Profile, floor: float
) -> list[Candidate]:
    """Returns the candidates of at least `floor`; if there are none, those matched by words."""
    passing = [candidate for candidate in candidates if candidate.score >= floor]
    if passing:
        return passing
    relaxed = min(floor, profile.text_weight)
    return [
        candidate
        for candidate in candidates
        if text[candidate.row] > 0 and candidate.score >= relaxed
    ]


def _ordered(
    candidates: list[Candidate], scores: Scores, profile: Profile, options: RankOptions, limit: int
) -> Iterator[tuple[Candidate, float | None]]:
    """Yields the candidates in their final order, each with its MMR value; None without MMR."""
    if options.texts is None:
        yield from ((candidate, None) for candidate in candidates)
        return
    remaining = reordering.distinct(candidates, scores) if profile.distinct else candidates
    if options.mmr is None:
        yield from ((candidate, None) for candidate in remaining)
        return
    among = remaining[: limit * CANDIDATES]
    sets = [tokens(candidate.text) for candidate in among]
    for number, value in marginal(
        [candidate.score for candidate in among], sets, options.mmr, limit
    ):
        yield among[number], value
