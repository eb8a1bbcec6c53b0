"""Rescores the best passages by signs in their texts: speaker, question, date (pure)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry_recall.common_words import COMMON
from skerry_recall.dates import Day, Span, moment, named
from skerry_recall.question import ParsedQuestion

_LABEL: Final = re.compile(r"\n(?:[-*>] )?(?:\*\*)?([^\W\d_][\w .'-]{0,39}?)(?:\*\*)?:(?:\*\*)? ")
"""Speaker at the beginning of a line: `Ada: `, `**Ada:** `."""
_TURNS: Final = 2
"""Minimum number of different lines of a label that names a speaker."""
_SAMPLED: Final = 12
"""Limit on the lines of a label that are examined for this."""
_SAME: Final = 60
"""Two lines that begin with the same characters, this many, count as the same line."""
_WORDS: Final = 3
"""Minimum number of spaces in a line of speech."""
_LOOKED: Final = 6
"""Lines of a passage that are examined to detect a conversation."""
_WORD: Final = re.compile(r"\w+")
_USER: Final = "user"
"""Label of a user's messages in transcripts."""
_ENDS: Final = "?\uff1f\u061f"
"""Ends a question, in Latin, Chinese and Arabic script."""
_COPY: Final = 0.6
"""Minimum share of the query's words in a question that counts as an echo of the query."""
_MENTIONED: Final = 0.6
"""Share of the day bonus for an undated passage with a line that begins with the day, as in a log.
A day in the middle of a sentence does not count: most sentences of a report name the same days."""
_HEAD: Final = re.compile(r"^[^\n:|\u2013\u2014]{1,32}(?=:|[ \t]*$)", re.MULTILINE)
"""Possible day at the beginning of a line, alone or before a colon: `- Thursday, 24 September`."""
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
    """Weights of the signs, for scores of 0 to 1. Chosen by measurement."""

    other_speaker: float = 0.25
    """Reduction times the share of the passage by other speakers than the one in the question."""
    asks: float = 0.1
    """Reduction of a passage that ends with a question: the answer follows it."""
    echo: float = 0.3
    """Reduction of a passage that has the question's words only where a user asks the same."""
    when: float = 0.1
    """Reduction of a passage without a word of time, when the question asks for a time."""
    document: float = 0.2
    """Bonus, times the best score of a passage of the same document."""
    dated: float = 0.2
    """Bonus of a passage of a month or year that the question names."""
    days: float = 1.0
    """Bonus of a passage of several named days: a week, a weekend, a part of a month."""
    day: float = 2.0
    """Bonus of a passage of a single named day: more than any other difference."""

    def of(self, days: Day | Span) -> float:
        """Returns the bonus of a passage of these days."""
        if days.is_exact:
            return self.day
        is_several_days = isinstance(days, Span) or days.last is not None
        return self.days if is_several_days else self.dated


@dataclass(frozen=True, slots=True)
class Weighed:
    """New score of a passage."""

    score: float
    """0 to 1."""
    parts: Sequence[tuple[str, float]]
    """Bonuses and reductions, by name."""


def weigh(
    scores: Sequence[float],
    documents: Sequence[int],
    dates: Sequence[int],
    texts: Sequence[str],
    question: ParsedQuestion,
    hints: Hints,
) -> list[Weighed]:
    """Returns a new score for each passage, in the given order.

    The scores stay within 0..1: each sum is scaled by the lowest and the highest sum that are
    possible for this question. Dates are in ms since 1970, or -1 for none. Takes about ten
    microseconds per passage.
    """
    other_shares = _other_speaker_shares(texts, question.words)
    rare_words = frozenset(word for word in question.words if word not in COMMON)
    text_signs = [
        [
            (name, share * amount)
            for name, share, amount in _signs(text, other_share, question, hints)
        ]
        + [("echo", hints.echo * _echoes(text, rare_words))]
        for text, other_share in zip(texts, other_shares, strict=True)
    ]
    max_reduction = hints.echo + sum(amount for _, _, amount in _signs("?", 1.0, question, hints))
    max_sum = 1 + hints.document + max((hints.of(day) for day in question.days), default=0.0)
    peaks: dict[int, float] = {}
    for document, score in zip(documents, scores, strict=True):
        peaks[document] = max(score, peaks.get(document, 0.0))
    ranked = []
    for document, at, score, text, signs in zip(
        documents, dates, scores, texts, text_signs, strict=True
    ):
        reasons = [("document", hints.document * peaks[document])]
        if question.days and (amount := _dated(at, text, question, hints)):
            reasons.append(("dated", amount))
        parts = [*reasons, *((name, -amount) for name, amount in signs if amount)]
        total = score + sum(amount for _, amount in parts)
        ranked.append(Weighed((total + max_reduction) / (max_sum + max_reduction), tuple(parts)))
    return ranked


def _dated(at: int, text: str, question: ParsedQuestion, hints: Hints) -> float:
    """Returns the bonus for the question's days, by the passage's date or by those of its lines."""
    day = moment(at, question.zone) if at >= 0 else None
    bonus = max(
        (hints.of(day_asked) for day_asked in question.days if day and day_asked.has(day)),
        default=0.0,
    )
    if bonus:
        return bonus
    # Parsing dates takes a millisecond: only for a text that contains the number of a single day.
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
    text: str, other_share: float, question: ParsedQuestion, hints: Hints
) -> Iterator[tuple[str, float, float]]:
    """Yields the signs against a passage: name, degree (0 to 1) and weight."""
    yield "said", other_share, hints.other_speaker
    yield "asks", float(text.endswith("?")), hints.asks
    if question.when:
        has_time = (
            not _TIMES.isdisjoint(_WORD.findall(text.lower())) or _YEAR.search(text) is not None
        )
        yield "when", float(not has_time), hints.when


def _echoes(text: str, rare_words: frozenset[str]) -> float:
    """Returns the share of the question's words that only questions of the user contain, 0 to 1."""
    if not rare_words or "User: " not in text or not any(end in text for end in _ENDS):
        return 0.0
    min_words = _COPY * len(rare_words)
    folded = text.lower()
    if sum(word in folded for word in rare_words) < min_words:
        return 0.0
    is_copied, elsewhere = False, set[str]()
    for speaker, block in _blocks(text):
        for line in block.splitlines():
            line_words = rare_words.intersection(_WORD.findall(line.lower()))
            if speaker == _USER and _is_asking(line):
                is_copied = is_copied or len(line_words) >= min_words
            else:
                elsewhere |= line_words
    return 1.0 - len(elsewhere) / len(rare_words) if is_copied else 0.0


def is_conversation(text: str) -> bool:
    """Returns whether a text begins with lines of speakers."""
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


def other_speaker_shares(texts: Sequence[str], question: str) -> list[float]:
    """Returns the share of each text by other speakers than the one whom the question names."""
    return _other_speaker_shares(texts, frozenset(_WORD.findall(question.lower())))


def _other_speaker_shares(texts: Sequence[str], words: frozenset[str]) -> list[float]:
    """Returns the share of each text by other speakers than the one whom the question names.

    0 if the question names no speaker of these texts, or several. Text without a label counts for
    no speaker. A label names a speaker if it recurs and mostly sentences follow it: `Phone: 0151`
    is a field.
    """
    text_labels = [list(_labels(text)) for text in texts]
    lines: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for text, labels in zip(texts, text_labels, strict=True):
        for label, begin in labels:
            lines[label].append((text, begin))
    named = {label for label in lines if words.issuperset(label.split()) and _speaks(lines[label])}
    if len(named) != 1:
        return [0.0] * len(texts)
    other_speakers = {label for label in lines if label not in named and _speaks(lines[label])}
    shares = []
    for text, labels in zip(texts, text_labels, strict=True):
        ends = [begin for _, begin in labels[1:]] + [len(text)]
        parts = zip(labels, ends, strict=False)
        length = sum(end - begin for (label, begin), end in parts if label in other_speakers)
        shares.append(length / max(1, len(text)))
    return shares


def _speaks(lines: Sequence[tuple[str, int]]) -> bool:
    """Returns whether a label names a speaker, given the texts and offsets of its lines."""
    # Passages of a document overlap: the end of the line may be cut off in one of them.
    distinct = {line[:_SAME]: line for group in lines[:_SAMPLED] if (line := _line(*group))}
    return len(distinct) >= _TURNS and 2 * sum(map(_is_sentence, distinct.values())) >= len(
        distinct
    )


def _line(text: str, begin: int) -> str:
    """Returns the line that begins at `begin`."""
    end = text.find("\n", begin)
    return text[begin : end if end >= 0 else len(text)].rstrip(" *")


def _is_sentence(line: str) -> bool:
    """Returns whether a labelled line is speech, not the value of a field."""
    return not (line[-1:].isalnum() or line[-1:] in ",;:/") and line.count(" ") >= _WORDS


def _labels(text: str) -> Iterator[tuple[str, int]]:
    """Yields the speaker, in lower case, and the offset of each labelled line.

    A line without a label continues the line before it.
    """
    if ":" not in text:
        return
    for label in _LABEL.finditer("\n" + text):
        yield label[1].lower(), label.start()


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yields speaker and text of each block; the text before the first label has the speaker ""."""
    speaker, begin = "", 0
    for label, at in _labels(text):
        yield speaker, text[begin:at]
        speaker, begin = label, at
    yield speaker, text[begin:]
