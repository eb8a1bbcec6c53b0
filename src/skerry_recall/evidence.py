"""Looks at the best passages again: does it answer, who says it, and of which day? (pure)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry_recall.common import COMMON
from skerry_recall.dates import Day, Span, moment, named
from skerry_recall.question import Asked

_LABEL: Final = re.compile(r"^(?:[-*>] )?(?:\*\*)?([^\W\d_][\w .'-]{0,39}?)(?:\*\*)?:(?:\*\*)? ")
"""Who speaks, at the beginning of a line: `Ada: `, `**Ada:** `."""
_FAR: Final = 50
"""Characters of a line within which its label ends."""
_TURNS: Final = 2
"""Lines that a label has at least where it names a speaker."""
_WORDS: Final = 3
"""Spaces, at least, in a line that somebody says."""
_LOOKED: Final = 6
"""Lines of a passage that tell whether it is of a conversation."""
_WORD: Final = re.compile(r"\w+")
_USER: Final = "user"
"""The label of what a person said to the agent, in transcripts."""
_ENDS: Final = "?\uff1f\u061f"
"""Ends a question, in Latin, Chinese and Arabic script."""
_COPY: Final = 0.6
"""The share of the question's words from which on a line that asks is an echo of it."""
_MENTIONED: Final = 0.6
"""The share that a passage gets of what one of the named day gets, if its text names the day."""
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
    echo: float = 0.3
    """Taken from a passage that has the question's words where somebody asks the same."""
    when: float = 0.1
    """Taken from a passage without a word of time, where a time is asked for."""
    document: float = 0.2
    """Given for the best passage of the same document."""
    dated: float = 0.2
    """Given to a passage of a month or year that the question names."""
    days: float = 1.0
    """Given to a passage of some days that it names: a week, a weekend, a part of a month."""
    day: float = 2.0
    """Given to a passage of a single day that it names: more than any other difference."""

    def of(self, one: Day | Span) -> float:
        """Return what a passage of the days is given."""
        if one.is_exact:
            return self.day
        few = isinstance(one, Span) or one.last is not None
        return self.days if few else self.dated


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
    others = _others(texts, asked.words)
    telling = frozenset(word for word in asked.words if word not in COMMON)
    taken = [
        [(name, share * amount) for name, share, amount in _signs(text, other, asked, hints)]
        + [("echo", hints.echo * _echoes(text, telling))]
        for text, other in zip(texts, others, strict=True)
    ]
    least = hints.echo + sum(amount for _, _, amount in _signs("?", 1.0, asked, hints))
    most = 1 + hints.document + max((hints.of(day) for day in asked.days), default=0.0)
    peaks: dict[int, float] = {}
    for document, score in zip(documents, scores, strict=True):
        peaks[document] = max(score, peaks.get(document, 0.0))
    found = []
    for document, at, score, text, signs in zip(
        documents, dates, scores, texts, taken, strict=True
    ):
        given = [("document", hints.document * peaks[document])]
        if asked.days and (amount := _dated(at, text, asked, hints)):
            given.append(("dated", amount))
        parts = [*given, *((name, -amount) for name, amount in signs if amount)]
        total = score + sum(amount for _, amount in parts)
        found.append(Weighed((total + least) / (most + least), tuple(parts)))
    return found


def _dated(at: int, text: str, asked: Asked, hints: Hints) -> float:
    """Return what a passage gets for the days of the question that are its own, or in its text."""
    day = moment(at, asked.zone) if at >= 0 else None
    own = max((hints.of(one) for one in asked.days if day and one.has(day)), default=0.0)
    if own:
        return own
    # Reading dates takes a millisecond: only where the text has the number of a single day.
    exact = {one for one in asked.days if isinstance(one, Day) and one.is_exact}
    if day or not any(str(one.day) in text for one in exact):
        return 0.0
    return _MENTIONED * hints.day * bool(exact.intersection(named(text)))


def _signs(
    text: str, other: float, asked: Asked, hints: Hints
) -> Iterator[tuple[str, float, float]]:
    """Yield what speaks against a passage: a name, how far it holds (0 to 1), what it counts."""
    yield "said", other, hints.said
    yield "asks", float(text.endswith("?")), hints.asks
    if asked.when:
        told = not _TIMES.isdisjoint(_WORD.findall(text.lower())) or _YEAR.search(text) is not None
        yield "when", float(not told), hints.when


def _echoes(text: str, telling: frozenset[str]) -> float:
    """Return how far a passage has the question's words only where the same is asked, 0 to 1."""
    if not telling or "User: " not in text or not any(end in text for end in _ENDS):
        return 0.0
    turns = list(_speeches(text))
    lines = [line for _, line, _ in turns]
    asking = [who == _USER and _is_asking(line) for who, line, _ in turns]
    words = [telling.intersection(_WORD.findall(line.lower())) for line in lines]
    copied = any(
        is_asking and len(some) >= _COPY * len(telling)
        for is_asking, some in zip(asking, words, strict=True)
    )
    if not copied:
        return 0.0
    told = frozenset().union(
        *(some for is_asking, some in zip(asking, words, strict=True) if not is_asking)
    )
    return 1.0 - len(told) / len(telling)


def is_talk(text: str) -> bool:
    """Return whether a text begins with lines that somebody says."""
    labelled = [line for line in text.split("\n", _LOOKED)[:_LOOKED] if _LABEL.match(line)]
    return sum(map(_is_sentence, labelled)) >= _TURNS


def _is_asking(line: str) -> bool:
    """Return whether a line ends with a question."""
    return line.rstrip(" \t*_\"'”»)").endswith(tuple(_ENDS))


def said_by_others(texts: Sequence[str], question: str) -> list[float]:
    """Return the share of each text that others say than the speaker whom the question names."""
    return _others(texts, frozenset(_WORD.findall(question.lower())))


def _others(texts: Sequence[str], words: frozenset[str]) -> list[float]:
    """Return the share of each text that others say than the one speaker whom the question names.

    0 where it names no speaker of these texts, or several, and for what nobody is said to say. A
    label is a speaker where it recurs and what follows it are mostly sentences: `Phone: 0151 22`
    is a field.
    """
    none = [0.0] * len(texts)
    if not any(_may_name(text, words) for text in texts):
        return none
    spoken = [list(_speeches(text)) for text in texts]
    speakers = _speakers(spoken)
    named = {who for who in speakers if words.issuperset(who.split())}
    if len(named) != 1:
        return none
    shares = []
    for one in spoken:
        other = sum(len(line) for who, line, _ in one if who in speakers and who not in named)
        shares.append(other / max(1, sum(len(line) for _, line, _ in one)))
    return shares


def _speakers(spoken: Sequence[Sequence[tuple[str, str, bool]]]) -> frozenset[str]:
    """Return the labels that name speakers."""
    labelled = [(who, line) for one in spoken for who, line, is_first in one if who and is_first]
    lines = Counter(who for who, _ in labelled)
    said = Counter(who for who, line in labelled if _is_sentence(line))
    return frozenset(
        who for who, count in lines.items() if count >= _TURNS and 2 * said[who] >= count
    )


def _is_sentence(line: str) -> bool:
    """Return whether a labelled line is something that is said, not the value of a field."""
    last = line.rstrip(" *")[-1:]
    return not (last.isalnum() or last in ",;:/") and line.count(" ") >= _WORDS


def _may_name(text: str, words: frozenset[str]) -> bool:
    """Return whether a colon follows a word of the question: cheaper than to read each line."""
    return any(
        words.issuperset(before[-_FAR:].lower().replace("*", " ").split()[-1:])
        for before in text.split(":")[:-1]
    )


def _speeches(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield who says each line, in lower case, the line, and whether it has the name.

    A line without a name continues what the one before it says.
    """
    who = ""
    for line in text.splitlines():
        label = _LABEL.match(line) if line.find(": ", 0, _FAR) > 0 or "**" in line[:_FAR] else None
        who = label[1].lower() if label else who
        yield who, line, label is not None
