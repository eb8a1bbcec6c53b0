"""Reorders the best passages by the hints, newer ones first; rates them and drops repeats."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

import numpy as np

from skerry_recall.common_words import COMMON
from skerry_recall.dates import moment, within
from skerry_recall.diversity import newer_first, newest, tokens
from skerry_recall.numbers import Floats, Longs, Rows
from skerry_recall.question import ParsedQuestion
from skerry_recall.rerank import Hints, is_conversation, weigh
from skerry_recall.scores import Scores

POOL: Final = 50
"""Number of hits whose texts the hints examine, whatever the number of requested hits."""
_COMPARED: Final = 20
"""Number of hits among which newer near-equal statements move up."""
_TWO: Final = 2
_NONE: Final = frozenset[str]()
_YEARS: Final = 50
"""Limit on the years, up to the newest passage's, in which a day without a year is matched."""
_EPSILON: Final = 1e-6
_LATEST: Final = 1 << 62
_NAMED: Final = 0.9
"""Minimum score of a passage of a day that the question names."""
_SOME: Final = 20
"""Minimum number of passages whose mean cosine estimates that of unrelated texts."""
_UNRELATED: Final = 0.15
_ANSWER: Final = 0.55
"""Positions, between the mean cosine and 1, of an unrelated text and an answer, for an unmeasured
model."""
_DISTANCES: Final = (-1, 1, -2, 2)
_SHIFT_FROM: Final = 150
_SHIFT: Final = 0.08
_MAX_SHIFT: Final = 0.3
"""Among more unrelated passages the best one has a higher cosine. With e times `_SHIFT_FROM`
passages the position of unrelated texts moves `_SHIFT` of the way to an answer, and at most
`_MAX_SHIFT` of it."""
_BEGIN: Final = 3
"""Words by which the beginnings of texts are compared."""
_TURN: Final = 40
"""Number of terms above which a passage of a conversation gets less of its neighbours' scores."""
_FAINT: Final = 0.01
"""Minimum score of a passage that has only its neighbours' scores."""
_WITH_VECTORS: Final = 2.0
_WORDS_ALONE: Final = 0.75
"""Exponents of the share of the question's words in a score, with and without vectors."""


@dataclass(slots=True)
class Candidate:
    """Candidate for a ranking: a row with its score."""

    row: int
    score: float
    text: str = ""
    parts: Sequence[tuple[str, float]] = ()


def reordered(
    candidates: list[Candidate],
    scores: Scores,
    question: ParsedQuestion,
    hints: Hints,
    newer: float,
) -> list[Candidate]:
    """Returns the candidates, the first `POOL` of them ordered by the hints; the others follow."""
    first, remaining = candidates[:POOL], candidates[POOL:]
    rows = [candidate.row for candidate in first]
    weighed = weigh(
        [candidate.score for candidate in first],
        scores.document[rows].tolist(),
        scores.at[rows].tolist(),
        [candidate.text for candidate in first],
        question,
        hints,
    )
    for candidate, new in zip(first, weighed, strict=True):
        candidate.score, candidate.parts = new.score, new.parts
    first.sort(key=lambda candidate: -candidate.score)
    if newer and not question.days:
        first = _newer(first, scores.at, question, newer)
    return [*first, *remaining]


def add_neighbour_shares(
    candidates: list[Candidate],
    scores: Scores,
    short: int,
    shares: Sequence[tuple[Floats, float, float, float]],
) -> None:
    """Adds a share of the neighbours' scores to passages of conversations, if one of them is long.

    Unlike in a table or a list, the turns before and after belong to a turn. `shares` has an entry
    for words and one for vectors: the scores, their base, the share of an adjacent passage, and the
    share of the next one.
    """
    rows = np.array([candidate.row for candidate in candidates], np.intp)
    lengths = scores.length[rows].tolist()
    has_neighbours = [_has_neighbour(rows, distance, scores, short) for distance in _DISTANCES]
    for index, (candidate, length) in enumerate(zip(candidates, lengths, strict=True)):
        near = [
            (candidate.row + distance, abs(distance))
            for distance, has in zip(_DISTANCES, has_neighbours, strict=True)
            if has[index]
        ]
        if not near or not is_conversation(candidate.text):
            continue
        gain = sum(
            (adjacent if distance == 1 else beyond) * (float(raw[row]) - base)
            for raw, base, adjacent, beyond in shares
            for row, distance in near
        )
        candidate.score += gain * _TURN / max(length, _TURN)
    highest = max((candidate.score for candidate in candidates), default=0.0)
    for candidate in candidates:
        candidate.score /= max(1.0, highest)


def _has_neighbour(rows: Rows, distance: int, scores: Scores, short: int) -> list[bool]:
    """Returns for each row whether the row at `distance` is of its document and one of both long.

    All rows at once: a loop over them would take longer than all other work on the texts.
    """
    neighbour = rows + distance
    inside = (neighbour >= 0) & (neighbour < len(scores.document))
    neighbour = np.where(inside, neighbour, rows)
    same = scores.document[neighbour] == scores.document[rows]
    # Two short passages have shared their scores already.
    long = np.maximum(scores.length[neighbour], scores.length[rows]) > short
    has_neighbour: list[bool] = (inside & same & long).tolist()
    return has_neighbour


def rated(
    candidates: list[Candidate],
    scores: Scores,
    scale: tuple[float, float] | None,
) -> list[Candidate]:
    """Returns the candidates, each with an absolute score of 0 to 1, independent of the others.

    It combines a power of the share of the question's words, by their rarity, with the position of
    the cosine on the scale. Among the first `POOL` no hit scores lower than a later one.
    """
    if not candidates:
        return candidates
    rows = [candidate.row for candidate in candidates]
    words = np.minimum(scores.text[rows] / max(scores.possible, _EPSILON), 1.0)
    near = np.zeros(len(rows), np.float32)
    words **= _WORDS_ALONE if scores.vector is None else _WITH_VECTORS
    if scores.vector is not None:
        low, high = scale or _scale(scores.vector)
        shift = _SHIFT * math.log(max(len(scores) / _SHIFT_FROM, 1.0))
        low += (high - low) * min(shift, _MAX_SHIFT)
        near = np.clip((scores.vector[rows] - low) / max(high - low, _EPSILON), 0.0, 1.0)
    rating = np.maximum(1 - (1 - words) * (1 - near), _FAINT)
    named = np.array(
        [any(name == "dated" for name, _ in candidate.parts) for candidate in candidates]
    )
    rating = np.where(named, np.maximum(rating, _NAMED), rating)
    first = np.maximum.accumulate(rating[:POOL][::-1])[::-1]
    remaining = np.minimum.accumulate(np.concatenate([first[-1:], rating[POOL:]]))[1:]
    ratings = np.concatenate([first, remaining]).tolist()
    for candidate, value in zip(candidates, ratings, strict=True):
        candidate.score = value
    return candidates


def _scale(cosines: Floats) -> tuple[float, float]:
    """Returns the scale of a model without a measured one, from the mean of its cosines."""
    mean = float(cosines.mean()) if len(cosines) >= _SOME else 0.0
    return mean + _UNRELATED * (1 - mean), mean + _ANSWER * (1 - mean)


def date_bonuses(at: Longs, question: ParsedQuestion, hints: Hints) -> Floats:
    """Returns the bonus of each row: 0 unless the question names a day of it."""
    shares = np.zeros(len(at), np.float32)
    dates = at[at >= 0]
    if not len(dates):
        return shares
    first, last = (
        moment(int(time_ms), question.zone).year for time_ms in (dates.min(), dates.max())
    )
    years = range(max(first, last - _YEARS) - 1, last + 1)
    for day in question.days:
        for begin, end in within(day, years):
            low, high = (_ms(day, question.zone) for day in (begin, end + timedelta(days=1)))
            has = (at >= low) & (at < high)
            np.maximum(shares, has * np.float32(hints.of(day)), out=shares)
    return shares


def _ms(day: date, zone: tzinfo | None) -> float:
    """Returns the beginning of a day, in ms since 1970."""
    return datetime.combine(day, time.min, zone).timestamp() * 1000


def _newer(
    candidates: list[Candidate], at: Longs, question: ParsedQuestion, margin: float
) -> list[Candidate]:
    """Returns the candidates, the newer of near-equal statements first.

    A position keeps its score. If the question asks for an earlier state, the older one is first.
    """
    compared = candidates[:_COMPARED]
    scores = [candidate.score for candidate in compared]
    dates = [int(at[candidate.row]) for candidate in compared]
    if len({date for date in dates if date >= 0}) < _TWO:
        return candidates
    sets = [
        tokens(candidate.text) if date >= 0 else _NONE
        for candidate, date in zip(compared, dates, strict=True)
    ]
    if question.past:
        dates = [_LATEST - date if date >= 0 else date for date in dates]
    order = newer_first(sets, dates, scores, margin, question.words - COMMON)
    moved = [compared[index] for index in order]
    for index, (was, candidate) in enumerate(zip(order, moved, strict=True)):
        if was > index and scores[index] != candidate.score:
            candidate.parts = (*candidate.parts, ("newer", scores[index] - candidate.score))
    for candidate, score in zip(moved, scores, strict=True):
        candidate.score = score
    return [*moved, *candidates[_COMPARED:]]


def distinct(candidates: list[Candidate], scores: Scores) -> list[Candidate]:
    """Returns the candidates without verbatim repeats; of those in the first `POOL` the newest."""
    at = scores.at
    # Repeats have as many terms and the same beginning: most texts are not compared as a whole.
    lengths = scores.length[[candidate.row for candidate in candidates]].tolist()
    alike = [
        (length, " ".join(candidate.text.split(None, _BEGIN)[:_BEGIN]).lower())
        for candidate, length in zip(candidates, lengths, strict=True)
    ]
    often = Counter(alike)
    keys: list[Hashable] = [
        " ".join(candidate.text.lower().split()) if often[sign] > 1 else candidate.row
        for candidate, sign in zip(candidates, alike, strict=True)
    ]
    dates = [int(at[candidate.row]) for candidate in candidates[:POOL]]
    newest_rows = newest(keys, dates + [-2] * (len(candidates) - len(dates)))
    for first, latest in newest_rows:
        candidates[latest].score = candidates[first].score
    return [candidates[latest] for _, latest in newest_rows]
