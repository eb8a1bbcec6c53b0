"""Search terms of a query, and their positions in a text (pure)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from skerry.store.index_words import spread
from skerry_recall.common_words import COMMON, UNSPACED
from skerry_recall.question import identifiers, phrases

MAX_TERMS: Final = 24
"""Limit on the terms of one query."""
MAX_EXACT: Final = 8
"""Limit on the phrases and identifiers of one question."""
_WORD: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(f"[{UNSPACED}]+")
_MAX_STARTS: Final = 200
"""Limit on the word positions that are tried as the start of an excerpt."""


def terms(question: str) -> list[str]:
    """Returns the words to search for, each once; common words only if there are no others."""
    words = list(dict.fromkeys(_WORD.findall(question.casefold())))
    return ([word for word in words if word not in COMMON] or words)[:MAX_TERMS]


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """A question as terms for the index."""

    words: Mapping[str, str]
    """FTS5 phrase of each word, or pair of characters; an entry matches with any of them."""
    exact: Sequence[str]
    """FTS5 phrases of quoted text, and of identifiers such as `ERR_CONN_42`."""


def search_terms(question: str) -> SearchTerms:
    """Returns the terms to search for; empty for a query without words."""
    words: dict[str, str] = {}
    for term in terms(question):
        pairs = [pair for pair in spread(term).split() if len(pair) > 1]
        # A single character is the beginning of a pair, or the last of its run.
        lone = len(term) == 1 and _UNSPACED.fullmatch(term)
        words |= {term: f'"{term}"*'} if lone else {pair: f'"{pair}"' for pair in pairs or [term]}
    named = (*phrases(question), *identifiers(question))
    spread_names = (" ".join(_WORD.findall(spread(name))) for name in named)
    exact = [f'"{phrase}"' for phrase in dict.fromkeys(spread_names) if phrase]
    return SearchTerms(words, exact[:MAX_EXACT])


def excerpt(text: str, question: str, size: int) -> str:
    """Returns about `size` characters of the text, where most words of the question occur."""
    text = " ".join(text.split())
    if len(text) <= size:
        return text
    folded = text.casefold()
    positions = sorted(
        (match.start(), term)
        for term in terms(question)
        for match in islice(re.finditer(re.escape(term), folded), _MAX_STARTS)
    )
    room = size * 3 // 4

    def words_in_window(at: int) -> int:
        return len({term for start, term in positions if at <= start < at + room})

    first = max((start for start, _ in positions[:_MAX_STARTS]), key=words_in_window, default=0)
    begin = max(0, first - size // 4)
    cut = text[begin : begin + size]
    return f"{'…' if begin else ''}{cut}{'…' if begin + size < len(text) else ''}"
