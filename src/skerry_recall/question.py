"""Parses a question: terms, quoted phrases, identifiers, days (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

from skerry_recall.dates import Day, Span, named
from skerry_recall.terms import FORM, MAX_QUESTION, Words

_WORD: Final = re.compile(r"\w+")
_WHEN: Final = re.compile(
    r"\b(?:when|how long|(?:what|which) (?:date|day|month|year|time|season))\b", re.IGNORECASE
)
_PAST: Final = re.compile(
    r"\b(?:first|originally|initially|used to|former(?:ly)?|previous(?:ly)?|before|earlier|old"
    r"|früher|damals|vorher|zuerst|ehemal\w{0,4}|alte[nrs]?|antes|avant|ancien(?:ne)?|prima"
    r"|vroeger)\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(
    r'"([^"\n]{2,200})"|“([^“”\n]{2,200})”|«([^«»\n]{2,200})»|`([^`\n]{2,200})`'
)
_NAMED: Final = re.compile(r"[^\W\d]\d|\d[^\W\d]|\w[_./:@]\w|\d-\d|[a-z][A-Z]")
"""Pattern of identifiers: digits among letters, `_` or dots inside, a hump."""
PHRASES: Final = 4
"""Limit on the phrases of one question."""


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Parsed question."""

    terms: Mapping[str, float]
    """Terms, each with its weight: for `Collection.scores`."""
    words: frozenset[str] = frozenset()
    """All its words in lower case; among them may be the name of a speaker."""
    when: bool = False
    """True when it asks for a time."""
    past: bool = False
    """True when it asks for an earlier state."""
    days: tuple[Day | Span, ...] = ()
    """The days it names."""
    zone: tzinfo | None = UTC
    """Zone in which days begin; None is the zone of this machine."""
    now: int | None = None
    """Time of the question, in milliseconds since 1970."""


def read(
    question: str, words: Words, now: int | None = None, zone: tzinfo | None = UTC
) -> ParsedQuestion:
    """Parses a question. Takes a few microseconds for each of its words.

    `now` is the time of the question in ms since 1970, from which relative days count. `zone` is
    the zone in which days begin.
    """
    return ParsedQuestion(
        terms=dict.fromkeys(words.content(question), 1.0),
        words=frozenset(_WORD.findall(question.lower())),
        when=_WHEN.search(question) is not None,
        past=_PAST.search(question) is not None,
        days=named(question, now, zone),
        zone=zone,
        now=now,
    )


def phrases(question: str) -> list[str]:
    """Returns the phrases quoted in `"`, typographic quotes or backticks."""
    quotes = ("".join(match.groups(default="")).strip() for match in _QUOTED.finditer(question))
    return [phrase for phrase in dict.fromkeys(quotes) if phrase][:PHRASES]


def identifiers(question: str) -> list[str]:
    """Returns the identifiers, such as `ERR_CONN_42`, `notes.txt` or `10.0.0.1`."""
    forms = FORM.findall(question[:MAX_QUESTION])
    return [form for form in dict.fromkeys(forms) if _NAMED.search(form)][:PHRASES]
