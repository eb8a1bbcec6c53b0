"""Looks at the best passages again: does it answer, who says it, and of which day? (pure)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry_recall.common_words import COMMON
from skerry_recall.dates import Day, Span, moment, named
from skerry_recall.question import Asked

_LABEL: Final = re.compile(r"\n(?:[-*>] )?(?:\*\*)?([^\W\d_][\w .'-]{0,39}?)(?:\*\*)?:(?:\*\*)? ")
"""Speaker at the beginning of a line: `Ada: `, `**Ada:** `."""
_TURNS: Final = 2
"""Different lines that a label has at least where it names a speaker."""
_SAMPLED: Final = 12
"""Lines of a label that are looked at for it."""
_SAME: Final = 60
"""Characters with which two lines that begin alike are the same line."""
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
"""The share that a passage gets of what one of the named day gets, if a line of it begins with the
day, as in a log. Accounts name the same days in most of their sentences, which tells nothing."""
_HEAD: Final = re.compile(r"^[^\n:|\u2013\u2014]{1,32}(?=:|[ \t]*$)", re.MULTILINE)
"""Possible day of a line: `- Thursday, 24 September 2026`, alone or before a colon."""
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
    """Weights of the signs beside a score of 0 to 1. Chosen by measurement."""

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
        """Returns the bonus of a passage of the days."""
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
    """Bonuses and reductions, by name."""


def weigh(
    scores: Sequence[float],
    documents: Sequence[int],
    dates: Sequence[int],
    texts: Sequence[str],
    question: Asked,
    hints: Hints,
) -> list[Weighed]:
    """Returns the passages in the order given, each with its new score; all are candidates.

    The scores stay within 0..1: the sum is scaled by the most and the least that it can be for
    this question. Dates are in ms since 1970, -1 is none. Takes some ten microseconds for each
    passage.
    """
    others = _others(texts, question.words)
    telling = frozenset(word for word in question.words if word not in COMMON)
    texts_taken = [
        [(name, share * amount) for name, share, amount in _signs(text, other, question, hints)]
        + [("echo", hints.echo * _echoes(text, telling))]
        for text, other in zip(texts, others, strict=True)
    ]
    least = hints.echo + sum(amount for _, _, amount in _signs("?", 1.0, question, hints))
    most = 1 + hints.document + max((hints.of(day) for day in question.days), default=0.0)
    peaks: dict[int, float] = {}
    for document, score in zip(documents, scores, strict=True):
        peaks[document] = max(score, peaks.get(document, 0.0))
    ranked = []
    for document, at, score, text, signs in zip(
        documents, dates, scores, texts, texts_taken, strict=True
    ):
        reasons = [("document", hints.document * peaks[document])]
        if question.days and (amount := _dated(at, text, question, hints)):
            reasons.append(("dated", amount))
        parts = [*reasons, *((name, -amount) for name, amount in signs if amount)]
        total = score + sum(amount for _, amount in parts)
        ranked.append(Weighed((total + least) / (most + least), tuple(parts)))
    return ranked


def _dated(at: int, text: str, question: Asked, hints: Hints) -> float:
    """Returns the bonus of a passage for the question's days: its own, or those of its lines."""
    day = moment(at, question.zone) if at >= 0 else None
    own = max(
        (hints.of(day_asked) for day_asked in question.days if day and day_asked.has(day)),
        default=0.0,
    )
    if own:
        return own
    # Reading dates takes a millisecond: only where the text has the number of a single day.
    exact = {
        day_asked
        for day_asked in question.days
        if isinstance(day_asked, Day) and day_asked.is_exact
    }
    if day or not any(str(day_exact.day) in text for day_exact in exact):
        return 0.0
    heads = "\n".join(match[0] for match in _HEAD.finditer(text))
    return _MENTIONED * hints.day * bool(exact.intersection(named(heads)))


def _signs(
    text: str, other: float, question: Asked, hints: Hints
) -> Iterator[tuple[str, float, float]]:
    """Yields what speaks against a passage: a name, how far it holds (0 to 1), what it counts."""
    yield "said", other, hints.said
    yield "asks", float(text.endswith("?")), hints.asks
    if question.when:
        has_time = (
            not _TIMES.isdisjoint(_WORD.findall(text.lower())) or _YEAR.search(text) is not None
        )
        yield "when", float(not has_time), hints.when


def _echoes(text: str, telling: frozenset[str]) -> float:
    """Returns how far a passage has the question's words only where the same is asked, 0 to 1."""
    if not telling or "User: " not in text or not any(end in text for end in _ENDS):
        return 0.0
    least = _COPY * len(telling)
    folded = text.lower()
    if sum(word in folded for word in telling) < least:
        return 0.0
    copied, speakers = False, set[str]()
    for who, block in _blocks(text):
        for line in block.splitlines():
            some = telling.intersection(_WORD.findall(line.lower()))
            if who == _USER and _is_asking(line):
                copied = copied or len(some) >= least
            else:
                speakers |= some
    return 1.0 - len(speakers) / len(telling) if copied else 0.0


def is_talk(text: str) -> bool:
    """Returns whether a text begins with lines that somebody says."""
    count = 0
    for _, begin in _labels(text):
        if text.count("\n", 0, begin) >= _LOOKED:
            return False
        count += _is_sentence(_line(text, begin))
        if count == _TURNS:
            return True
    return False


def _is_asking(line: str) -> bool:
    """Returns whether a line ends with a question."""
    return line.rstrip(" \t*_\"'”»)").endswith(tuple(_ENDS))


def said_by_others(texts: Sequence[str], question: str) -> list[float]:
    """Returns the share of each text that others say than the speaker whom the question names."""
    return _others(texts, frozenset(_WORD.findall(question.lower())))


def _others(texts: Sequence[str], words: frozenset[str]) -> list[float]:
    """Returns the share of each text that others say than the one speaker whom the question names.

    0 where it names no speaker of these texts, or several, and for what nobody is said to say. A
    label is a speaker where it recurs and what follows it are mostly sentences: `Phone: 0151 22`
    is a field.
    """
    spoken = [list(_labels(text)) for text in texts]
    used: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for text, labels in zip(texts, spoken, strict=True):
        for who, begin in labels:
            used[who].append((text, begin))
    named = {who for who in used if words.issuperset(who.split()) and _speaks(used[who])}
    if len(named) != 1:
        return [0.0] * len(texts)
    others = {who for who in used if who not in named and _speaks(used[who])}
    shares = []
    for text, labels in zip(texts, spoken, strict=True):
        ends = [begin for _, begin in labels[1:]] + [len(text)]
        parts = zip(labels, ends, strict=False)
        other = sum(end - begin for (who, begin), end in parts if who in others)
        shares.append(other / max(1, len(text)))
    return shares


def _speaks(lines: Sequence[tuple[str, int]]) -> bool:
    """Returns whether a label, given the texts and places of its lines, names a speaker."""
    # Passages of a document overlap: the end of the line may be cut off in one of them.
    some = {line[:_SAME]: line for group in lines[:_SAMPLED] if (line := _line(*group))}
    return len(some) >= _TURNS and 2 * sum(map(_is_sentence, some.values())) >= len(some)


def _line(text: str, begin: int) -> str:
    """Returns the line that begins there."""
    end = text.find("\n", begin)
    return text[begin : end if end >= 0 else len(text)].rstrip(" *")


def _is_sentence(line: str) -> bool:
    """Returns whether a labelled line is something that is said, not the value of a field."""
    return not (line[-1:].isalnum() or line[-1:] in ",;:/") and line.count(" ") >= _WORDS


def _labels(text: str) -> Iterator[tuple[str, int]]:
    """Yields who speaks, in lower case, and where the line begins.

    A line without a name continues what the one before it says.
    """
    if ":" not in text:
        return
    for label in _LABEL.finditer("\n" + text):
        yield label[1].lower(), label.start()


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yields who says what, in order; what is before the first label nobody says."""
    who, begin = "", 0
    for speaker, at in _labels(text):
        yield who, text[begin:at]
        who, begin = speaker, at
    yield who, text[begin:]
