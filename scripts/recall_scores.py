"""Prints the effect of each `memorySearch.query.minScore` on fitting and on foreign questions.

python -m scripts.recall_scores DATA [CACHE]

Each memory is searched with its own questions, and as many of another data set. CACHE has the
vectors of `skerry memory bench --cache`; without it the search compares words only. A fitting
question counts if an answering passage is among the first six hits; a foreign one if it has a hit.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from scripts.recall_settings import kept
from skerry.features.memory.bench.figures import figure
from skerry.features.memory.bench.measure import MODEL, BenchVectors
from skerry.features.memory.bench.sets import BenchQuery, BenchScope, BenchTrial, trials
from skerry_recall.collection import Collection
from skerry_recall.fuse import BEST, RankOptions, rank
from skerry_recall.models import SCALES
from skerry_recall.numbers import Longs
from skerry_recall.question import read
from skerry_recall.terms import Words

MIN_SCORES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
MAX_HITS: Final = 6
MAX_QUESTIONS: Final = 100
"""Maximum number of questions of each kind for a memory."""
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class MemoryQuestions:
    """A memory with its own questions, and with questions that it cannot answer."""

    scope: BenchScope
    fitting: Sequence[BenchQuery]
    foreign: Sequence[BenchQuery]


def main() -> None:
    """Prints a table: a row a kind of memory, a column a least score."""
    data, cache = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None  # noqa: PLR2004 - the second is optional
    every = [*trials(data), *trials(Path("tests/data/recall"))]
    used = [trial for trial in every if trial.kind in ("session", "language", "chunking", "notes")]
    used = [trial for trial in used if trial.kind != "notes" or trial.name.endswith(".all")]
    vectors: dict[str, BenchVectors] = {}
    if cache is not None:
        for trial in used:
            vectors[trial.name] = anyio.run(kept, trial, cache)
    print("memory, kept / finds anything, %", *MIN_SCORES, sep=" | ")
    for trial in used:
        for name, memories in rows(trial, used):
            all_vectors = BenchVectors(
                {text: row for part in vectors.values() for text, row in part.passages.items()},
                {text: row for part in vectors.values() for text, row in part.queries.items()},
            )
            print(name, *map(cell, measured(memories, all_vectors)), sep=" | ", flush=True)


def rows(
    trial: BenchTrial, every: Sequence[BenchTrial]
) -> Iterator[tuple[str, Sequence[MemoryQuestions]]]:
    """Yields each row by its name: memories with foreign questions of other sets.

    Conversations have a second row, with questions about the other conversations.
    """
    chance = random.Random(_SEED)  # noqa: S311 - the same questions each time
    data_set = trial.name.partition(".")[0]
    english = ("session", "chunking") if trial.kind == "language" else ("session", "language")
    pool = [
        query
        for other in every
        if other.name.partition(".")[0] != data_set
        and other.kind in english
        and (other.kind != "language" or other.name.endswith(".en"))
        for scope in other.scopes
        for query in scope.queries
    ]
    yield (
        f"{trial.name}",
        [
            MemoryQuestions(scope, some(chance, scope.queries), some(chance, pool))
            for scope in trial.scopes
        ],
    )
    if trial.kind == "session":
        scopes = [
            (scope, [query for two in trial.scopes if two is not scope for query in two.queries])
            for scope in trial.scopes
        ]
        yield (
            f"{trial.name}, questions of the other conversations",
            [
                MemoryQuestions(scope, some(chance, scope.queries), some(chance, questions))
                for scope, questions in scopes
            ],
        )


def some(chance: random.Random, queries: Sequence[BenchQuery]) -> Sequence[BenchQuery]:
    """Returns a random sample of up to `MAX_QUESTIONS` questions."""
    return chance.sample(list(queries), min(MAX_QUESTIONS, len(queries)))


def measured(
    memories: Sequence[MemoryQuestions], vectors: BenchVectors
) -> Iterator[tuple[float, float]]:
    """Yields for each minimum score the shares of both kinds of questions, in per cent."""
    kept_of, finds = [0.0] * len(MIN_SCORES), [0.0] * len(MIN_SCORES)
    for memory in memories:
        with TemporaryDirectory() as folder:
            search = Search(memory.scope, vectors, Path(folder))
            for query in memory.fitting:
                for at, rows in enumerate(search.find(query)):
                    kept_of[at] += answers(rows, query, memory.scope)
            for query in memory.foreign:
                for at, rows in enumerate(search.find(query)):
                    finds[at] += bool(rows)
    foreign = sum(len(memory.foreign) for memory in memories)
    for kept_count, any_of in zip(kept_of, finds, strict=True):
        yield 100 * kept_count / kept_of[0], 100 * any_of / foreign


def answers(rows: Sequence[int], query: BenchQuery, scope: BenchScope) -> bool:
    """Returns whether one of the passages contains an answer, or a part of it."""
    if not query.spans:
        return any(scope.units[row] in query.gold for row in rows)
    return figure("recall@1000000", rows, query, scope) > 0


class Search:
    """Searches one memory as the product does."""

    def __init__(self, scope: BenchScope, vectors: BenchVectors, folder: Path) -> None:
        self._scope, self._vectors = scope, vectors
        self._collection, self._words = Collection(folder), Words()
        vectors_by_id = {
            passage.id: vectors.passages[passage.text]
            for passage in scope.passages
            if vectors.passages
        }
        self._collection.refresh(added=scope.passages, vectors=vectors_by_id)

    def find(self, query: BenchQuery) -> Iterator[list[int]]:
        """Yields the rows of the hits for each minimum score."""
        question = read(query.text, self._words, query.now)
        scores = self._collection.scores(question.terms, self._vectors.queries.get(query.text))
        texts = partial(self._texts, scores.id)
        hits = rank(
            scores, BEST, MAX_HITS, RankOptions(question=question, texts=texts, scale=SCALES[MODEL])
        )
        rows = [int(scores.id[hit.row]) - 1 for hit in hits]
        for min_score in MIN_SCORES:
            yield rows if any(hit.score >= min_score and hit.score > 0 for hit in hits) else []

    def _texts(self, ids: Longs, rows: Sequence[int]) -> list[str]:
        return [self._scope.passages[int(ids[row]) - 1].text for row in rows]


def cell(shares: tuple[float, float]) -> str:
    """Returns one cell."""
    return f"{shares[0]:.0f} / {shares[1]:.0f}"


if __name__ == "__main__":
    main()
