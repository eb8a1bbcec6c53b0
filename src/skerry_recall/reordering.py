"""Orders the best passages anew: by the hints, the newer first, no repeats; and says how good."""

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
from skerry_recall.question import Asked
from skerry_recall.rerank import Hints, is_talk, weigh
from skerry_recall.scores import Scores

POOL: Final = 50
"""Hits whose texts the hints look at, however many are asked for."""
_COMPARED: Final = 20
"""Hits among which the newer of near-equal statements is looked for."""
_TWO: Final = 2
_NONE: Final = frozenset[str]()
_YEARS: Final = 50
"""Limit on the years, up to the newest passage's, in which a day without a year is matched."""
_LEAST: Final = 1e-6
_LATEST: Final = 1 << 62
_NAMED: Final = 0.9
"""Minimum score of a passage of a day that the question names."""
_SOME: Final = 20
"""Passages from which on their mean cosine says what unrelated texts have."""
_UNRELATED: Final = 0.15
_ANSWER: Final = 0.55
"""Positions, between the mean cosine and 1, of an unrelated text and an answer, for an unmeasured
model."""
_DISTANCES: Final = (-1, 1, -2, 2)
_FEW: Final = 150
_MANY: Final = 0.08
_MOST: Final = 0.3
"""The best of more unrelated passages is nearer: with e times as many as those few, what counts as
unrelated goes so much further of the way to an answer, and never further than the last."""
_BEGIN: Final = 3
"""Words by which the beginnings of texts are compared."""
_TALK: Final = 40
"""Terms by which the share of a long passage of a conversation is divided by its length."""
_FAINT: Final = 0.01
"""Minimum score of a passage that has only its neighbours' scores."""
_BESIDE: Final = 2.0
_ALONE: Final = 0.75
"""The powers of the share of the question's words in a score, beside a meaning and without one."""


@dataclass(slots=True)
class Candidate:
    """A row on its way into the ranking."""

    row: int
    score: float
    text: str = ""
    parts: Sequence[tuple[str, float]] = ()


def again(
    candidates: list[Candidate], scores: Scores, question: Asked, hints: Hints, newer: float
) -> list[Candidate]:
    """Returns the candidates, the first `POOL` of them ordered by the hints; the others follow."""
    first, others = candidates[:POOL], candidates[POOL:]
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
    return [*first, *others]


def share_talk(
    candidates: list[Candidate],
    scores: Scores,
    short: int,
    shares: Sequence[tuple[Floats, float, float, float]],
) -> None:
    """Gives passages of conversations their share of the scores of neighbours, where one is long.

    What was said before and after belongs to it, unlike in a table or a list. For words and meaning
    each: the scores, what counts as none, the share of a passage beside it and of one beyond.
    """
    rows = np.array([candidate.row for candidate in candidates], np.intp)
    lengths = scores.length[rows].tolist()
    beside_each = [_beside(rows, distance, scores, short) for distance in _DISTANCES]
    for index, (candidate, length) in enumerate(zip(candidates, lengths, strict=True)):
        near = [
            (candidate.row + distance, abs(distance))
            for distance, has in zip(_DISTANCES, beside_each, strict=True)
            if has[index]
        ]
        if not near or not is_talk(candidate.text):
            continue
        gain = sum(
            (beside if distance == 1 else beyond) * (float(raw[row]) - base)
            for raw, base, beside, beyond in shares
            for row, distance in near
        )
        candidate.score += gain * _TALK / max(length, _TALK)
    most = max((candidate.score for candidate in candidates), default=0.0)
    for candidate in candidates:
        candidate.score /= max(1.0, most)


def _beside(rows: Rows, distance: int, scores: Scores, short: int) -> list[bool]:
    """Returns for each row whether the one so far from it is of the same document, and one is long.

    All rows at once: one by one they would cost more than all else that is done with the texts.
    """
    other = rows + distance
    inside = (other >= 0) & (other < len(scores.document))
    other = np.where(inside, other, rows)
    same = scores.document[other] == scores.document[rows]
    long = np.maximum(scores.length[other], scores.length[rows]) > short  # else it has its share
    alike: list[bool] = (inside & same & long).tolist()
    return alike


def related(
    candidates: list[Candidate],
    scores: Scores,
    scale: tuple[float, float] | None,
) -> list[Candidate]:
    """Returns the candidates, each with how well it answers, whatever the others do: 0 to 1.

    That is what the words or the meaning say at least: a power of the share of the question's
    words, by their rarity, and the place of the cosine on the scale. No hit has less than one that
    comes after it among the first `POOL`.
    """
    if not candidates:
        return candidates
    rows = [candidate.row for candidate in candidates]
    words = np.minimum(scores.text[rows] / max(scores.possible, _LEAST), 1.0)
    near = np.zeros(len(rows), np.float32)
    words **= _ALONE if scores.vector is None else _BESIDE
    if scores.vector is not None:
        low, high = scale or _scale(scores.vector)
        low += (high - low) * min(_MANY * math.log(max(len(scores) / _FEW, 1.0)), _MOST)
        near = np.clip((scores.vector[rows] - low) / max(high - low, _LEAST), 0.0, 1.0)
    good = np.maximum(1 - (1 - words) * (1 - near), _FAINT)
    named = np.array(
        [any(name == "dated" for name, _ in candidate.parts) for candidate in candidates]
    )
    good = np.where(named, np.maximum(good, _NAMED), good)
    first = np.maximum.accumulate(good[:POOL][::-1])[::-1]
    others = np.minimum.accumulate(np.concatenate([first[-1:], good[POOL:]]))[1:]
    for candidate, value in zip(candidates, np.concatenate([first, others]).tolist(), strict=True):
        candidate.score = value
    return candidates


def _scale(cosines: Floats) -> tuple[float, float]:
    """Returns the scale of a model that nobody measured: from the mean of all, if any."""
    mean = float(cosines.mean()) if len(cosines) >= _SOME else 0.0
    return mean + _UNRELATED * (1 - mean), mean + _ANSWER * (1 - mean)


def dated(at: Longs, question: Asked, hints: Hints) -> Floats:
    """Returns the bonus of each row that is of a day named by the question."""
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
    """Returns when a day begins, in ms since 1970."""
    return datetime.combine(day, time.min, zone).timestamp() * 1000


def _newer(
    candidates: list[Candidate], at: Longs, question: Asked, margin: float
) -> list[Candidate]:
    """Returns the candidates, the newer of near-equal statements first; a place keeps its score.

    Where the question asks for what was before, the older one.
    """
    some = candidates[:_COMPARED]
    scores = [candidate.score for candidate in some]
    dates = [int(at[candidate.row]) for candidate in some]
    if len({date for date in dates if date >= 0}) < _TWO:
        return candidates
    sets = [
        tokens(candidate.text) if date >= 0 else _NONE
        for candidate, date in zip(some, dates, strict=True)
    ]
    if question.past:
        dates = [_LATEST - date if date >= 0 else date for date in dates]
    order = newer_first(sets, dates, scores, margin, question.words - COMMON)
    moved = [some[index] for index in order]
    for index, (was, candidate) in enumerate(zip(order, moved, strict=True)):
        if was > index and scores[index] != candidate.score:
            candidate.parts = (*candidate.parts, ("newer", scores[index] - candidate.score))
    for candidate, score in zip(moved, scores, strict=True):
        candidate.score = score
    return [*moved, *candidates[_COMPARED:]]


def distinct(candidates: list[Candidate], scores: Scores) -> list[Candidate]:
    """Returns those that repeat no other word for word; of repeats among the first the newest."""
    at = scores.at
    # Repeats have as many terms and begin alike: most texts need not be read to their end.
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
