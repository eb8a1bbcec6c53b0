"""Baselines to compare the product with: SQLite's FTS5, and BM25 with vectors by RRF."""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import log
from typing import Final

from skerry.features.memory.bench.sets import BenchScope
from skerry_recall.common_words import COMMON, UNSPACED
from skerry_recall.numbers import Floats

BASELINES: Final = {"fts5-and": " AND ", "fts5-or": " OR "}
"""Operators that join the words of a query; stemmed by `porter`, common words included."""
_WORD: Final = re.compile(r"\w+")
FUSED: Final = "bm25-rrf"
"""BM25 and the cosine, merged by reciprocal rank."""
_K: Final = 1.2
_B: Final = 0.75
_RANKS: Final = 60
_UNSPACED: Final = re.compile(rf"[{UNSPACED}]+")


class FullText:
    """The passages of a scope in a table of FTS5 in memory."""

    def __init__(self, scope: BenchScope) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")
        rows = [(row, passage.text) for row, passage in enumerate(scope.passages)]
        self._db.executemany("INSERT INTO t(rowid, text) VALUES (?, ?)", rows)

    def search(self, question: str, joined: str, limit: int) -> Sequence[int]:
        """Returns the rows with the best BM25 rank of FTS5."""
        match = joined.join(f'"{word}"' for word in _WORD.findall(question))
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?"
        return [row for (row,) in self._db.execute(sql, (match, limit))] if match else []

    def close(self) -> None:
        """Drops the table."""
        self._db.close()


class Fused:
    """BM25 (1.2, 0.75) without stems and common words, Han and kana in pairs; and vectors."""

    def __init__(self, scope: BenchScope, vectors: "Mapping[str, Floats]") -> None:
        self._words = [Counter(_words(passage.text)) for passage in scope.passages]
        self._length = [sum(word.values()) for word in self._words]
        self._mean = sum(self._length) / max(1, len(self._length)) or 1.0
        self._document_counts = Counter(word for words in self._words for word in words)
        self._vectors = [vectors[passage.text] for passage in scope.passages] if vectors else []

    def search(self, question: str, vector: "Floats | None", limit: int) -> Sequence[int]:
        """Returns the rows with the highest sums of `1 / (60 + rank)`."""
        words = {word for word in _words(question) if word not in COMMON}
        by_words = [
            sum(self._weight(word, row) for word in words if word in document)
            for row, document in enumerate(self._words)
        ]
        ranked = [row for row in _ranked(by_words) if by_words[row] > 0]
        sums: defaultdict[int, float] = defaultdict(float)
        for rank, row in enumerate(ranked):
            sums[row] += 1 / (_RANKS + rank)
        if vector is not None and self._vectors:
            cosines = [float(stored @ vector) for stored in self._vectors]
            for rank, row in enumerate(_ranked(cosines)):
                sums[row] += 1 / (_RANKS + rank)
        return sorted(sums, key=lambda row: -sums[row])[:limit]

    def _weight(self, word: str, row: int) -> float:
        document_count, count = self._document_counts[word], self._words[row][word]
        rare = log(1 + (len(self._words) - document_count + 0.5) / (document_count + 0.5))
        norm = 1 - _B + _B * self._length[row] / self._mean
        return rare * count * (_K + 1) / (count + _K * norm)


def _ranked(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda row: -scores[row])


def _words(text: str) -> list[str]:
    lines: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _UNSPACED.search(word):
            lines += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        else:
            lines.append(word)
    return lines
