"""Makes one ranking of what words and meaning say: normalise, weigh, smooth, decay, diversify."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np

from skerry_recall.diversity import marginal, tokens
from skerry_recall.numbers import Doubles, Floats, Ints, Longs, Mask, Rows
from skerry_recall.question import Asked
from skerry_recall.reordering import POOL, Candidate, again, dated, distinct, related, share_talk
from skerry_recall.rerank import Hints
from skerry_recall.scores import Scores

DAY_MS: Final = 86_400_000
CANDIDATES: Final = 4
"""Hits among which maximal marginal relevance chooses, for each that is wanted."""
SHORT: Final = 60
"""Terms up to which a passage gets the whole share of its neighbours: a turn of a conversation."""
SHORTER: Final = 40  # the same for meaning
_BLOCK: Final = 128
_LEAST: Final = 1e-6
_SPREAD: Final = 0.06
"""Difference of the highest and the lowest cosine below which they count as equal."""


@dataclass(frozen=True, slots=True)
class Near:
    """Share of its neighbours' scores that a passage gets, and of those one further."""

    beside: float = 0.0
    beyond: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Weights of words and vectors. They count by their ratio, whatever their sum."""

    name: str
    vector_weight: float
    text_weight: float
    candidates: int | None = None
    """None: every row is weighed, with the scores of each side scaled to 0..1 over all of them.
    Else: only the best of each side are, this many for each hit that is wanted, by `1 / (1 + rank)`
    of the words (0 for the best) and by the cosine."""
    text_near: Near = Near()
    vector_near: Near = Near()
    sure: float = 0.0
    """Share of the question's words, by their rarity, that its best passage must have for words to
    get their whole weight: a question in another language shares few. 0 is always all."""
    distinct: bool = False
    """Drops all but the newest of passages with the same words."""
    newer: float = 0.0
    """Margin by which the older of two near-equal statements may score better, yet is second."""
    hints: Hints | None = None  # searched in the texts of the best passages


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
    """Reduction of a dated passage's score by age; one without a date keeps all of it."""

    now: int
    """Milliseconds since 1970 from which the age counts."""
    half_life: float = 30.0
    """Days in which a score halves; above 0."""
    floor: float = 0.0
    """The share of the score that no age takes, 0 to 1."""


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Steps after the weighing. Without `texts` no passage is read: no hints, no MMR."""

    min_score: float = 0.0
    """Hits below are left out. When that leaves none, those that have a word of the question stay
    from the weight of the words on: a lone exact hit is never hidden."""
    decay: Decay | None = None
    mmr: float | None = None
    """Lambda of maximal marginal relevance: 1 is relevance alone, 0.7 is usual."""
    asked: Asked | None = None
    """Parsed question, for the hints."""
    texts: Callable[[Sequence[int]], Sequence[str]] | None = None
    """Returns the passages of rows."""
    scale: tuple[float, float] | None = None
    """The cosines of unrelated texts and of an answer, of the model; None where nobody measured."""
    explain: bool = False
    """Adds the parts of its score to each hit; each part is looked up among all rows."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row that was found."""

    row: int
    score: float
    """0 to 1."""
    explanation: Sequence[tuple[str, float]]
    """The parts of the score by name, in the order in which they were applied; where asked for."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Scores of words or of vectors, over all rows."""

    name: str
    raw: Floats
    near: Floats
    """Scores with the neighbours' share."""
    part: Floats
    """Part added to the score of each row, 0 if the row was not found."""
    found: Mask | None
    """None is all."""
    base: float = 0.0
    """Base of the raw scores; neighbours share the difference from it."""
    unit: float = 0.0
    """Increase of a row's score for a raw score of 1."""

    def parts(self, row: int) -> Iterator[tuple[str, float]]:
        """Yields what this side says of a row, its rank counted from 1."""
        if self.part[row] <= 0:
            return
        yield self.name, float(self.raw[row])
        yield f"{self.name}.rank", float(np.count_nonzero(self.raw > self.raw[row]) + 1)
        if self.near is not self.raw:
            yield f"{self.name}.near", float(self.near[row] - self.raw[row] + self.base)
        yield f"{self.name}.part", float(self.part[row])


def rank(scores: Scores, profile: Profile, limit: int, options: RankOptions) -> list[Ranked]:
    """Returns up to `limit` rows, the best first; rows of equal score in their order.

    The stages are those of the seeds: union, weighted sum, decay, MMR. Without `candidates` in the
    profile every row is weighed; with it, a row that only one side found stays in, with what that
    side says. Before MMR the profile's hints look at the texts of the best again. Costs some 20
    passes over the arrays, 2 to 3 ms of CPU for 100,000 rows, and up to 2 ms for the texts.
    """
    if limit <= 0 or not len(scores):
        return []
    sides = _sides(scores, profile, limit)
    total, mask = sides[0].part, sides[0].found
    for side in sides[1:]:
        total = total + side.part
        mask = None if mask is None or side.found is None else mask | side.found
    if scores.mask is not None:
        total = total * scores.mask
        mask = scores.mask if mask is None else mask & scores.mask
    fresh = None if options.decay is None else decayed(scores.at, options.decay)
    if fresh is not None:
        total = total * fresh
    rows = _rows(total, mask, scores, profile, options, limit)
    candidates = _looked_at(rows, total, sides, scores, profile, options)
    candidates = _passing(candidates, scores.text, profile, options.min_score)
    hits: list[Ranked] = []
    for candidate, value in islice(_ordered(candidates, scores, profile, options, limit), limit):
        if not options.explain:
            hits.append(Ranked(candidate.row, candidate.score, ()))
            continue
        parts = [part for side in sides for part in side.parts(candidate.row)]
        parts += [] if fresh is None else [("decay", float(fresh[candidate.row]))]
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
    """Returns the rows that may be among the hits, the best first.

    Those of days that the question names are preferred here already: in a large memory the words
    alone would leave them out.
    """
    count = limit * CANDIDATES
    if profile.hints is None:
        return top(total, count, mask)
    question = options.asked
    if question is not None and question.days:
        date_shares = dated(scores.at, question, profile.hints)
        if scores.mask is not None:
            date_shares = date_shares * scores.mask
        total = total + date_shares
        mask = None if mask is None else mask | (date_shares > 0)
    return top(total, max(count, POOL), mask)


def smoothed(
    scores: Floats, document: Ints, near: Near, length: Ints | None = None, short: int = SHORT
) -> Floats:
    """Returns each score with a share of those of its neighbours in the same document.

    `s'(i) = s(i) + beside * (s(i-1) + s(i+1)) + beyond * (s(i-2) + s(i+2))`: an answer often
    stands beside the passage that has the question's words. Given the lengths, a passage of more
    than `short` terms gets less, one of twice as many nothing: it holds its own context. One of
    more than twice as many gives less: a short one beside it is the end of what was cut.
    """
    shares = [(1, near.beside), (2, near.beyond)]
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


def top(scores: Floats, count: int, mask: Mask | None = None) -> Rows:
    """Returns the rows of the `count` highest scores, the best first, ties in row order.

    No score is below 0, and what is not `found` has 0. Of many rows the `count`-th highest of the
    maxima of blocks is a bound that `count` rows reach: ten times cheaper than partitioning all.
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
    """Returns the sides there are; the weights of both make 1, one alone has all of it."""
    if scores.vector is None:
        return [_text(scores, profile, 1.0, limit)]
    weight = profile.text_weight / (profile.text_weight + profile.vector_weight)
    if profile.sure:
        best = float(_allowed(scores.text, scores.mask).max())
        weight *= min(1.0, best / max(profile.sure * scores.possible, _LEAST))
    return [
        _text(scores, profile, weight, limit),
        _vector(scores, scores.vector, profile, 1 - weight, limit),
    ]


def _text(scores: Scores, profile: Profile, weight: float, limit: int) -> _Side:
    """Weighs what shares words with the question, or stands beside such a passage."""
    near = smoothed(scores.text, scores.document, profile.text_near, scores.length)
    allowed = _allowed(near, scores.mask)
    if profile.candidates is None:
        high = float(allowed.max())
        unit = weight / high if high > 0 else 0.0
        part = allowed * np.float32(unit)
        return _Side("text", scores.text, near, part, part > 0, unit=unit)
    rows = top(allowed, limit * profile.candidates, allowed > 0)
    return _few("text", scores.text, rows, weight / (1 + np.arange(len(rows))))


def _vector(scores: Scores, raw: Floats, profile: Profile, weight: float, limit: int) -> _Side:
    """Weighs by meaning, which finds every passage that may be found."""
    if profile.candidates is None:
        # From the mean: who has more neighbours, or shorter ones, is not to gain by their number.
        mean = float(raw.mean())
        near = smoothed(
            raw - np.float32(mean), scores.document, profile.vector_near, scores.length, SHORTER
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
    return _few("vector", raw, rows, allowed[rows] * weight)


def _allowed(scores: Floats, mask: Mask | None) -> Floats:
    """Returns the scores with 0 where nothing may be found."""
    return scores if mask is None else scores * mask


def _few(name: str, raw: Floats, rows: Rows, values: Doubles | Floats) -> _Side:
    """Returns a side that found only these rows, each with its share of the score."""
    part = np.zeros_like(raw)
    part[rows] = values
    mask = np.zeros(len(raw), np.bool_)
    mask[rows] = True
    return _Side(name, raw, raw, part, mask)


def _looked_at(
    rows: Rows,
    total: Floats,
    sides: Sequence[_Side],
    scores: Scores,
    profile: Profile,
    options: RankOptions,
) -> list[Candidate]:
    """Returns the candidates, with their texts where a stage needs them, by the hints if any."""
    candidates = [Candidate(int(row), float(total[row])) for row in rows]
    if options.texts is None or not (profile.hints or profile.distinct or options.mmr):
        return candidates
    for candidate, text in zip(candidates, options.texts(rows.tolist()), strict=True):
        candidate.text = text
    if profile.hints is None or options.asked is None:
        return candidates
    nears = (profile.text_near, profile.vector_near)
    shares = [
        (side.raw, side.base, side.unit * near.beside, side.unit * near.beyond)
        for side, near in zip(sides, nears, strict=False)
    ]
    share_talk(candidates[:POOL], scores, SHORT, shares)
    looked = again(candidates, scores, options.asked, profile.hints, profile.newer)
    return related(looked, scores, options.scale)


def _passing(
    candidates: list[Candidate], text: Floats, profile: Profile, floor: float
) -> list[Candidate]:
    """Returns those from the lowest score on; where there is none, those the words found."""
    strict = [candidate for candidate in candidates if candidate.score >= floor]
    if strict:
        return strict
    relaxed = min(floor, profile.text_weight)
    return [
        candidate
        for candidate in candidates
        if text[candidate.row] > 0 and candidate.score >= relaxed
    ]


def _ordered(
    candidates: list[Candidate], scores: Scores, profile: Profile, options: RankOptions, limit: int
) -> Iterator[tuple[Candidate, float | None]]:
    """Yields the rows in their last order, with the value by which MMR chose them, if it did."""
    if options.texts is None:
        yield from ((candidate, None) for candidate in candidates)
        return
    remaining = distinct(candidates, scores) if profile.distinct else candidates
    if options.mmr is None:
        yield from ((candidate, None) for candidate in remaining)
        return
    among = remaining[: limit * CANDIDATES]
    sets = [tokens(candidate.text) for candidate in among]
    for number, value in marginal(
        [candidate.score for candidate in among], sets, options.mmr, limit
    ):
        yield among[number], value
