"""Converts a question to a query for QMD (pure)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.config.memory_qmd import QmdSearchMode
from skerry_recall.common_words import COMMON

MAX_WORDS: Final = 8
"""Limit on the words of a query. QMD ranks one list per word; with the whole question and its
vector there are ten lists, the limit of its server."""
_MAX_QUERY_CHARS: Final = 1_000
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class QmdQuery:
    """One query: typed lines, which QMD ranks separately and then merges."""

    lines: Sequence[tuple[str, str]]
    """Type, `lex` or `vec`, and text of each line."""
    collections: Sequence[str]
    limit: int
    rerank: bool

    @property
    def semantic(self) -> bool:
        """Returns whether vectors are compared."""
        return any(kind == "vec" for kind, _ in self.lines)

    def body(self) -> dict[str, Any]:
        """Returns the arguments of the server's tool `query`."""
        return {
            "searches": [{"type": kind, "query": text} for kind, text in self.lines],
            "collections": list(self.collections),
            "limit": self.limit,
            "rerank": self.rerank,
        }

    def arguments(self) -> list[str]:
        """Returns the arguments of the command line."""
        named = [part for name in self.collections for part in ("-c", name)]
        document = "\n".join(f"{kind}: {text}" for kind, text in self.lines)
        rerank = [] if self.rerank else ["--no-rerank"]
        return ["query", document, "--json", "-n", str(self.limit), *rerank, *named]


def query_of(
    text: str,
    collections: Sequence[str],
    limit: int,
    *,
    mode: QmdSearchMode,
    models: bool,
    rerank: bool,
) -> QmdQuery | None:
    """Returns the query for QMD; None if the question has no word.

    QMD requires every word of a line in a document, so a long question as one line finds nothing:
    each word gets its own line, in addition to the whole question. QMD's syntax for phrases and
    exclusions is not used, because an unmatched quotation mark is an error.

    Args:
        text: The question.
        collections: Names of the collections to search.
        limit: Limit on the hits.
        mode: Configured search mode.
        models: True when the embedding model is installed; without it QMD would hang offline.
        rerank: True to rerank; needs the reranking model.
    """
    words = list(dict.fromkeys(_WORD.findall(text[:_MAX_QUERY_CHARS].lower())))
    content_words = [word for word in words if word not in COMMON] or words
    if not content_words:
        return None
    plain = " ".join(content_words)
    lines = []
    if mode is not QmdSearchMode.VSEARCH or not models:
        lines += [("lex", line) for line in dict.fromkeys((plain, *content_words[:MAX_WORDS]))]
    if mode is not QmdSearchMode.SEARCH and models:
        lines.append(("vec", " ".join(_WORD.findall(text[:_MAX_QUERY_CHARS]))))
    return QmdQuery(lines, collections, limit, rerank and models)
