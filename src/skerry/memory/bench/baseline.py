"""SQLite's FTS5 as others use it, measured beside the product."""

import re
import sqlite3
from collections.abc import Sequence
from typing import Final

from skerry.memory.bench.sets import Scope

BASELINES: Final = {"fts5-and": " AND ", "fts5-or": " OR "}
"""How the words of a question are joined; stemmed by `porter`, common words included."""
_WORD: Final = re.compile(r"\w+")


class FullText:
    """The passages of a scope in a table of FTS5 in memory."""

    def __init__(self, scope: Scope) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")
        rows = [(row, one.text) for row, one in enumerate(scope.passages)]
        self._db.executemany("INSERT INTO t(rowid, text) VALUES (?, ?)", rows)

    def search(self, question: str, joined: str, limit: int) -> Sequence[int]:
        """Return the rows that its BM25 puts first."""
        match = joined.join(f'"{word}"' for word in _WORD.findall(question))
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?"
        return [row for (row,) in self._db.execute(sql, (match, limit))] if match else []

    def close(self) -> None:
        """Drop the table."""
        self._db.close()
