"""Turns a question into what QMD is asked (pure)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.config.memory_qmd import QmdSearchMode
from skerry_recall.common_words import COMMON

MOST_WORDS: Final = 8
"""Each is one list that QMD ranks; with the whole question and its meaning there are ten, as many
as its server takes."""
_LONGEST: Final = 1_000
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class QmdQuery:
    """One query: typed lines, which QMD ranks each by itself and then joins."""

    lines: Sequence[tuple[str, str]]
    """`lex` or `vec`, and the text."""
    collections: Sequence[str]
    limit: int
    rerank: bool

    @property
    def semantic(self) -> bool:
        """Returns whether meaning is compared."""
        return any(kind == "vec" for kind, _ in self.lines)

    def body(self) -> dict[str, Any]:
        """Returns the arguments of the tool `query` of its server."""
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

    QMD wants every word of a line in a document, which long questions find nothing with: so each
    word is a line of its own, beside the question as a whole. Its syntax for phrases and exclusions
    is kept out: a quotation mark too much is an error to it.

    Args:
        text: The question.
        collections: Where to look.
        limit: Hits at most.
        mode: As configured.
        models: Whether the embedding model is there; without it QMD would hang offline.
        rerank: Whether the reranking model is there and wanted.
    """
    words = list(dict.fromkeys(_WORD.findall(text[:_LONGEST].lower())))
    telling = [word for word in words if word not in COMMON] or words
    if not telling:
        return None
    plain = " ".join(telling)
    lines = []
    if mode is not QmdSearchMode.VSEARCH or not models:
        lines += [("lex", fromkey) for fromkey in dict.fromkeys((plain, *telling[:MOST_WORDS]))]
    if mode is not QmdSearchMode.SEARCH and models:
        lines.append(("vec", " ".join(_WORD.findall(text[:_LONGEST]))))
    return QmdQuery(lines, collections, limit, rerank and models)
