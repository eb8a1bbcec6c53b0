"""Looks at the best passages again: does it answer, and who says it? (pure)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry_recall.dates import moment
from skerry_recall.question import Asked

_LABEL: Final = re.compile(r"^(?:[-*>] )?(?:\*\*)?([^\W\d_][\w .'-]{0,39}?)(?:\*\*)?:(?:\*\*)? ")
"""Who speaks, at the beginning of a line: `Ada: `, `**Ada:** `."""
_FAR: Final = 50
"""Characters of a line within which its label ends."""
_WORD: Final = re.compile(r"\w+")
_TIMES: Final = frozenset(
    _WORD.findall(
        "yesterday today tonight tomorrow last next ago since recently just morning week weeks"
        " weekend month months year years monday tuesday wednesday thursday friday saturday sunday"
        " january february march april may june july august september october november december"
    )
)
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


@dataclass(frozen=True, slots=True)
class Hints:
    """How much each sign counts beside a score of 0 to 1. Chosen by measurement."""

    said: float = 0.25
    """Taken for the share of a passage that somebody else says than the one the question names."""
    asks: float = 0.1
    """Taken from a passage that ends with a question: the answer is what follows it."""
    when: float = 0.1
    """Taken from a passage without a word of time, where a time is asked for."""
    document: float = 0.2
    """Given for the best passage of the same document."""
    dated: float = 0.2
    """Given to a passage of a day that the question names."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A passage looked at again."""

    score: float
    """0 to 1."""
    parts: Sequence[tuple[str, float]]
    """What was given and taken, by name."""


def weigh(
    scores: Sequence[float],
    documents: Sequence[int],
    dates: Sequence[int],
    texts: Sequence[str],
    asked: Asked,
    hints: Hints,
) -> list[Weighed]:
    """Return the passages in the order given, each with its new score; all are candidates.

    The scores stay within 0..1: the sum is scaled by the most and the least that it can be for
    this question. Dates are in ms since 1970, -1 is none. Takes some ten microseconds for each
    passage.
    """
    others = _others(texts, asked)
    taken = [
        [(name, share * amount) for name, share, amount in _signs(text, other, asked, hints)]
        for text, other in zip(texts, others, strict=True)
    ]
    least = sum(amount for _, _, amount in _signs("?", 1.0, asked, hints))
    most = 1 + hints.document + (hints.dated if asked.days else 0.0)
    peaks: dict[int, float] = {}
    for document, score in zip(documents, scores, strict=True):
        peaks[document] = max(score, peaks.get(document, 0.0))
    found = []
    for document, at, score, signs in zip(documents, dates, scores, taken, strict=True):
        given = [("document", hints.document * peaks[document])]
        if at >= 0 and any(day.has(moment(at)) for day in asked.days):
            given.append(("dated", hints.dated))
        parts = [*given, *((name, -amount) for name, amount in signs if amount)]
        total = score + sum(amount for _, amount in parts)
        found.append(Weighed((total + least) / (most + least), tuple(parts)))
    return found


def _signs(
    text: str, other: float, asked: Asked, hints: Hints
) -> Iterator[tuple[str, float, float]]:
    """Yield what speaks against a passage: a name, how far it holds (0 to 1), what it counts."""
    yield "said", other, hints.said
    yield "asks", float(text.endswith("?")), hints.asks
    if asked.when:
        told = not _TIMES.isdisjoint(_WORD.findall(text.lower())) or _YEAR.search(text) is not None
        yield "when", float(not told), hints.when


def _others(texts: Sequence[str], asked: Asked) -> list[float]:
    """Return the share of each text that others say than the one speaker whom the question names.

    0 where it names no speaker of these texts, or several, and for what nobody is said to say.
    """
    if not any(_may_name(text, asked) for text in texts):
        return [0.0] * len(texts)
    spoken = [list(_speeches(text)) for text in texts]
    named = {who for one in spoken for who, _ in one if who and asked.words.issuperset(who.split())}
    if len(named) != 1:
        return [0.0] * len(texts)
    shares = []
    for one in spoken:
        other = sum(length for who, length in one if who and who not in named)
        shares.append(other / max(1, sum(length for _, length in one)))
    return shares


def _may_name(text: str, asked: Asked) -> bool:
    """Return whether a colon follows a word of the question: cheaper than to read each line."""
    return any(
        asked.words.issuperset(before[-_FAR:].lower().replace("*", " ").split()[-1:])
        for before in text.split(":")[:-1]
    )


def _speeches(text: str) -> Iterator[tuple[str, int]]:
    """Yield who says each line, in lower case, and its length; a line without a name continues."""
    who = ""
    for line in text.splitlines():
        label = _LABEL.match(line) if line.find(": ", 0, _FAR) > 0 or "**" in line[:_FAR] else None
        who = label[1].lower() if label else who
        yield who, len(line)
