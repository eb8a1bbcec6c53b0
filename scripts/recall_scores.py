"""Prints what each `memorySearch.query.minScore` keeps of fitting questions, and of foreign ones.

python -m scripts.recall_scores DATA [CACHE]

Each memory is asked its own questions, and as many of a data set about something else. CACHE has
the vectors that `skerry memory bench --cache` left; without it words alone are compared. A fitting
question is kept where a passage that answers is among the six first; a foreign one counts where it
finds anything.
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

LEAST: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
SHOWN: Final = 6
MOST: Final = 100
"""Questions of each kind that a memory is asked."""
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Asked:
    """A memory, what it is asked, and what it is asked that it cannot know."""

    scope: BenchScope
    fitting: Sequence[BenchQuery]
    foreign: Sequence[BenchQuery]


def main() -> None:
    """Prints a table: a row a kind of memory, a column a least score."""
    data, cache = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None  # noqa: PLR2004 - the second is optional
    every = [*trials(data), *trials(Path("tests/data/recall"))]
    used = [one for one in every if one.kind in ("session", "language", "chunking", "notes")]
    used = [one for one in used if one.kind != "notes" or one.name.endswith(".all")]
    vectors: dict[str, BenchVectors] = {}
    if cache is not None:
        for one in used:
            vectors[one.name] = anyio.run(kept, one, cache)
    print("memory, kept / finds anything, %", *LEAST, sep=" | ")
    for trial in used:
        for name, memories in rows(trial, used):
            both = BenchVectors(
                {text: row for one in vectors.values() for text, row in one.passages.items()},
                {text: row for one in vectors.values() for text, row in one.queries.items()},
            )
            print(name, *map(cell, measured(memories, both)), sep=" | ", flush=True)


def rows(trial: BenchTrial, every: Sequence[BenchTrial]) -> Iterator[tuple[str, Sequence[Asked]]]:
    """Yields each row by its name: memories with foreign questions of other sets.

    Conversations have a second one: what was asked of the other conversations.
    """
    chance = random.Random(_SEED)  # noqa: S311 - the same questions each time
    mine = trial.name.partition(".")[0]
    english = ("session", "chunking") if trial.kind == "language" else ("session", "language")
    pool = [
        query
        for one in every
        if one.name.partition(".")[0] != mine
        and one.kind in english
        and (one.kind != "language" or one.name.endswith(".en"))
        for scope in one.scopes
        for query in scope.queries
    ]
    yield (
        f"{trial.name}",
        [Asked(one, some(chance, one.queries), some(chance, pool)) for one in trial.scopes],
    )
    if trial.kind == "session":
        others = [
            (one, [query for two in trial.scopes if two is not one for query in two.queries])
            for one in trial.scopes
        ]
        yield (
            f"{trial.name}, questions of the other conversations",
            [Asked(one, some(chance, one.queries), some(chance, other)) for one, other in others],
        )


def some(chance: random.Random, queries: Sequence[BenchQuery]) -> Sequence[BenchQuery]:
    """Returns as many questions as are asked."""
    return chance.sample(list(queries), min(MOST, len(queries)))


def measured(memories: Sequence[Asked], vectors: BenchVectors) -> Iterator[tuple[float, float]]:
    """Yields for each least score the shares of both kinds of questions, in per cent."""
    kept_of, finds = [0.0] * len(LEAST), [0.0] * len(LEAST)
    for one in memories:
        with TemporaryDirectory() as folder:
            search = Search(one.scope, vectors, Path(folder))
            for query in one.fitting:
                for at, found in enumerate(search.find(query)):
                    kept_of[at] += answers(found, query, one.scope)
            for query in one.foreign:
                for at, found in enumerate(search.find(query)):
                    finds[at] += bool(found)
    foreign = sum(len(one.foreign) for one in memories)
    for here, any_of in zip(kept_of, finds, strict=True):
        yield 100 * here / kept_of[0], 100 * any_of / foreign


def answers(found: Sequence[int], query: BenchQuery, scope: BenchScope) -> bool:
    """Returns whether a passage of those has what answers, or a part of it."""
    if not query.spans:
        return any(scope.units[row] in query.gold for row in found)
    return figure("recall@1000000", found, query, scope) > 0


class Search:
    """Asks one memory as the product does."""

    def __init__(self, scope: BenchScope, vectors: BenchVectors, folder: Path) -> None:
        self._scope, self._vectors = scope, vectors
        self._collection, self._words = Collection(folder), Words()
        held = {one.id: vectors.passages[one.text] for one in scope.passages if vectors.passages}
        self._collection.refresh(added=scope.passages, vectors=held)

    def find(self, query: BenchQuery) -> Iterator[list[int]]:
        """Yields for each least score the rows of what is found."""
        asked = read(query.text, self._words, query.now)
        scores = self._collection.scores(asked.terms, self._vectors.queries.get(query.text))
        texts = partial(self._texts, scores.id)
        found = rank(
            scores, BEST, SHOWN, RankOptions(question=asked, texts=texts, scale=SCALES[MODEL])
        )
        rows = [int(scores.id[hit.row]) - 1 for hit in found]
        for least in LEAST:
            yield rows if any(hit.score >= least and hit.score > 0 for hit in found) else []

    def _texts(self, ids: Longs, found: Sequence[int]) -> list[str]:
        return [self._scope.passages[int(ids[row]) - 1].text for row in found]


def cell(both: tuple[float, float]) -> str:
    """Returns one cell."""
    return f"{both[0]:.0f} / {both[1]:.0f}"


if __name__ == "__main__":
    main()
