"""What a question asks for, apart from its words (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry_recall.terms import Words

_WORD: Final = re.compile(r"\w+")
_WHEN: Final = re.compile(
    r"\b(?:when|how long|(?:what|which) (?:date|day|month|year|time|season))\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, read."""

    terms: Mapping[str, float]
    """What is looked for, each term with its weight: for `Collection.scores`."""
    words: frozenset[str] = frozenset()
    """All its words in lower case: those that are the name of a speaker say who said it."""
    when: bool = False
    """Whether it asks for a time."""


def read(question: str, words: Words) -> Asked:
    """Return what a question asks for. Takes a few microseconds for each of its words."""
    return Asked(
        terms=dict.fromkeys(words.content(question), 1.0),
        words=frozenset(_WORD.findall(question.lower())),
        when=_WHEN.search(question) is not None,
    )
