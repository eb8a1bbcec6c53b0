"""The benchmark on one real conversation: its hits, and that it detects defects of the search."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from skerry.cli.main import main
from skerry.features.memory.bench.measure import BenchVectors, measure
from skerry.features.memory.bench.sets import trials
from skerry_recall.collection import Collection
from skerry_recall.fuse import BEST, Near, Profile
from skerry_recall.scores import Scores
from skerry_recall.terms import Words, shared

DATA: Final = Path(os.environ.get("SKERRY_DATA", "../shared/data"))
MIN_SCORES: Final = {"recall@5": 65, "recall@10": 76, "ndcg@10": 56.5, "mrr": 53}
"""By words alone; two to three below what was measured."""
MIN_SCORES_BY_MEANING: Final = {"recall@5": 67, "recall@10": 76, "ndcg@10": 56, "mrr": 52}

pytestmark = [
    pytest.mark.full("the data sets of ../shared/data"),
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}"),
]


def figures(found: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the figures of turns by their short names."""
    return {name.rpartition(".")[2]: value for name, value in found.items() if ".turn." in name}


def poor(found: Mapping[str, float], least: Mapping[str, float]) -> Mapping[str, float]:
    return {name: found[name] for name in least if found[name] < least[name]}


def by_words(folder: Path, profile: Profile = BEST) -> Mapping[str, Mapping[str, float]]:
    turns = [trial for trial in trials(DATA, 1) if trial.kind == "turn"]
    table = measure(turns, [profile], BenchVectors(), folder, lambda *_: None)
    return {who: figures(one) for who, one in table.items()}


def test_by_words_alone_its_turns_are_found_and_better_than_by_fts5(tmp_path: Path) -> None:
    table = by_words(tmp_path)
    assert poor(table["best"], MIN_SCORES) == {}
    assert poor(table["best"], table["fts5-or"]) == {}


def test_the_command_finds_more_with_the_local_model(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--data", str(DATA), "--conversations", "1", "--only", "turn", "--profile", "best"]
    assert main(["memory", "bench", *asked, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert list(table) == ["best", "fts5-and", "fts5-or", "bm25-rrf"]
    assert poor(figures(table["best"]), MIN_SCORES_BY_MEANING) == {}


def _no_stem(_: Words, word: str) -> str:
    return word


def _all_words(self: Words, question: str) -> Sequence[str]:
    return list(dict.fromkeys(self.terms(question)))


_scores: Final = Collection.scores


def _every_word(self: Collection, terms: Mapping[str, float], *given: Any) -> Scores:
    """Finds only what has each word of the question."""
    scores = _scores(self, terms, *given)
    each = [_scores(self, {term: 1.0}).text > 0 for term in terms]
    return replace(scores, text=np.where(np.logical_and.reduce(each), scores.text, 0))


@pytest.mark.parametrize(
    ("of", "name", "defect"),
    [
        (Words, "_stem", _no_stem),
        (Words, "content", _all_words),
        (Collection, "scores", _every_word),
    ],
    ids=["no stems", "stop words kept", "an AND of all words"],
)
def test_a_defect_of_the_words_lowers_the_figures(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    name: str,
    defect: Callable[..., object],
) -> None:
    shared.cache_clear()  # it remembers what it made without the defect
    monkeypatch.setattr(of, name, defect)
    try:
        found = by_words(tmp_path)
    finally:
        shared.cache_clear()
    assert poor(found["best"], MIN_SCORES)


@pytest.mark.parametrize(
    "defect", [{"text_near": Near()}, {"hints": None}], ids=["no neighbours", "no hints"]
)
def test_a_defect_of_the_ranking_lowers_the_figures(
    tmp_path: Path, defect: Mapping[str, Any]
) -> None:
    assert poor(by_words(tmp_path, replace(BEST, **defect))["best"], MIN_SCORES)
