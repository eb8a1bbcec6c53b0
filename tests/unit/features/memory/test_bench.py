"""The benchmark reads any folder of data sets, and counts as is usual."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from skerry.features.memory.bench.cache import VectorCache
from skerry.features.memory.bench.figures import figure
from skerry.features.memory.bench.measure import BenchVectors, measure
from skerry.features.memory.bench.plot import curves
from skerry.features.memory.bench.reply import evidence
from skerry.features.memory.bench.sets import (
    BenchQuery,
    BenchScope,
    BenchTrial,
    NoDataError,
    trials,
)
from skerry_recall.embed import Kind
from skerry_recall.fuse import PROFILES
from skerry_recall.numbers import Floats
from skerry_recall.passage import Passage

SAID = (
    ("s1", "Ada", "I painted the boat last week."),
    ("s1", "Bo", "Which colour did you choose?"),
    ("s1", "Ada", "A deep red, like the harbour houses."),
    ("s2", "Bo", "My bicycle was stolen on Tuesday."),
    ("s2", "Ada", "How sad, tell the police."),
)
ASKED = (
    ("When did Ada paint the boat?", 2, ["D0"]),
    ("Whose bicycle was stolen?", 5, ["D3"]),
    ("What nobody said?", 1, ["D99"]),
)


def lines(path: Path, *rows: Mapping[str, object]) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Data sets of each known form, in small."""
    data = tmp_path / "data"
    (data / "texts_corpora").mkdir(parents=True)
    talk = [
        {"scope": "c1", "id": f"D{n}", "session": session, "speaker": who, "text": text}
        | {"time": "2026-05-08T13:56:00"}
        for n, (session, who, text) in enumerate(SAID)
    ]
    lines(data / "talk.docs.jsonl", *talk, {**talk[0], "scope": "c2"})
    asked = [
        {"scope": "c1", "question": text, "category": category, "evidence": gold}
        for text, category, gold in ASKED
    ]
    lines(data / "talk.queries.jsonl", *asked, {**asked[0], "scope": "c2"})
    lines(
        data / "lands.docs.jsonl",
        {"id": "en:1", "lang": "en", "text": "The capital of Norway is Oslo."},
        {"id": "en:2", "lang": "en", "text": "Lisbon lies at the Tagus."},
        {"id": "de:1", "lang": "de", "text": "Die Hauptstadt von Norwegen ist Oslo."},
    )
    lines(
        data / "lands.queries.jsonl",
        {"lang": "en", "question": "Where is Lisbon?", "evidence": ["en:2"]},
        {"lang": "de", "question": "Liegt Oslo in Norwegen?", "evidence": ["de:1"]},
    )
    (data / "texts_corpora" / "one.md").write_text("A heron stands. The gate is green.\n" * 2)
    reference = {"content": "The gate is green.", "start_index": 16, "end_index": 34}
    lines(
        data / "texts.queries.jsonl",
        {"corpus": "one", "question": "Which colour has the gate?", "references": [reference]},
    )
    return data


def by_words(found: list[BenchTrial], folder: Path) -> dict[str, dict[str, float]]:
    table = measure(found, list(PROFILES.values()), BenchVectors(), folder, lambda *_: None)
    return {who: dict(figures) for who, figures in table.items()}


def test_the_kind_of_a_set_is_told_from_its_fields(folder: Path) -> None:
    found = {trial.name: trial for trial in trials(folder)}
    assert list(found) == [
        "lands.en",
        "lands.de",
        "lands.cross",
        "talk.turn",
        "talk.session",
        "chunking",
    ]
    assert [scope.name for scope in found["talk.turn"].scopes] == ["c1", "c2"]
    (question,) = found["lands.cross"].scopes[0].queries
    assert question.gold == {"en:1"}
    assert found["lands.cross"].scopes[0].passages == found["lands.en"].scopes[0].passages


def test_a_turn_is_a_passage_of_its_session_and_a_session_is_a_file(folder: Path) -> None:
    found = {trial.name: trial for trial in trials(folder, 1)}
    turns, sessions = found["talk.turn"].scopes[0], found["talk.session"].scopes[0]
    assert [(passage.document, passage.position) for passage in turns.passages] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]
    assert turns.passages[0].text == "Ada: I painted the boat last week."
    assert [passage.document for passage in sessions.passages] == [0, 1]
    assert sessions.passages[0].text.count("\n") == 2


def test_turns_leave_out_what_the_conversation_does_not_answer(folder: Path) -> None:
    found = {trial.name: trial for trial in trials(folder, 1)}
    assert [query.gold for query in found["talk.turn"].scopes[0].queries] == [{"D0"}]
    assert [query.gold for query in found["talk.session"].scopes[0].queries] == [{"s1"}, {"s2"}]


def test_every_profile_and_fts5_are_measured(folder: Path, tmp_path: Path) -> None:
    table = by_words(trials(folder), tmp_path / "index")
    assert list(table) == ["best", "openclaw", "classic", "fts5-and", "fts5-or", "bm25-rrf"]
    for figures in table.values():
        assert {"talk.turn.recall@5", "talk.session.mrr", "lands.cross.hit@1"} <= set(figures)
    assert table["best"]["talk.turn.recall@5"] == 100
    assert table["best"]["chunking.recall@4000"] == 100
    assert table["fts5-and"]["lands.de.hit@1"] == 0


def test_a_folder_without_data_sets_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="--data"):
        trials(tmp_path)


def test_the_figures_are_the_usual_ones() -> None:
    passages = [Passage(n + 1, n, 0, "") for n in range(4)]
    scope = BenchScope("", passages, ["a", "b", "a", "c"], ())
    query = BenchQuery("", frozenset({"b", "c"}))
    found = [2, 0, 1, 3]
    assert figure("recall@2", found, query, scope) == 0.5
    assert figure("hit@1", found, query, scope) == 0
    assert figure("hit@2", found, query, scope) == 1
    assert figure("mrr", found, query, scope) == 0.5
    gain = 1 / math.log2(3) + 1 / math.log2(4)
    assert figure("ndcg@10", found, query, scope) == pytest.approx(gain / (1 + 1 / math.log2(3)))


def test_characters_count_once_and_only_inside_the_budget() -> None:
    passages = [Passage(1, 0, 0, ""), Passage(2, 0, 1, "")]
    scope = BenchScope("", passages, ["a", "a"], (), offsets=[(0, 100), (80, 200)])
    query = BenchQuery("", spans=[("a", 90, 110)])
    assert figure("recall@95", [0, 1], query, scope) == 0.25
    assert figure("recall@100", [0, 1], query, scope) == 0.5
    assert figure("recall@125", [0, 1], query, scope) == 0.75
    assert figure("recall@4000", [1], query, scope) == 1


async def test_kept_vectors_are_not_made_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def embed(texts: object) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        assert isinstance(texts, list)
        asked.extend(texts)
        return np.array([[len(text), 1.0] for text in texts], np.float32)

    cache = VectorCache(tmp_path, "local/some model", "passage")
    first = await cache.of(["a", "bb"], embed, lambda *_: None)
    path = next(tmp_path.iterdir())
    with path.open("ab") as file:
        file.write(b"a record that was broken off")
    again = await cache.of(["bb", "ccc"], embed, lambda *_: None)
    assert asked == ["a", "bb", "ccc"]
    assert again["bb"].tolist() == first["bb"].tolist() == [2, 1]
    third = await cache.of(["ccc"], embed, lambda *_: None)
    assert third["ccc"].tolist() == [3, 1]
    assert len(asked) == 3


def test_the_plot_has_a_line_for_each_profile() -> None:
    svg = curves({"best": {"chunking.recall@1000": 50.0, "chunking.recall@4000": 90.0}}, "a < b")
    assert svg.startswith("<svg ")
    assert svg.count("<circle") == 2
    assert "a &lt; b" in svg
    assert ">best<" in svg


async def test_the_evidence_in_replies_is_asked_of_the_tool(folder: Path, tmp_path: Path) -> None:
    turns = [trial for trial in trials(folder, 1) if trial.kind == "turn"]
    table = await evidence(turns, list(PROFILES), tmp_path / "replies", lambda *_: None)
    assert list(table) == ["best", "openclaw", "classic"]
    assert table["best"] == {
        "talk.reply.evidence.notes": 100,
        "talk.reply.evidence.transcripts": 100,
        "talk.reply.evidence": 100,
    }


async def test_a_reply_that_hides_lines_shows_in_the_figure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [trial for trial in trials(folder, 1) if trial.kind == "turn"]
    monkeypatch.setattr("skerry.features.memory.service.EXCERPT", 60)
    table = await evidence(turns, ["best"], tmp_path / "replies", lambda *_: None)
    assert table["best"]["talk.reply.evidence"] < 100


async def test_replies_are_measured_with_the_vectors_of_the_model(
    folder: Path, tmp_path: Path
) -> None:
    kinds: list[Kind] = []

    async def embed(kind: Kind, texts: Sequence[str]) -> dict[str, Floats]:
        kinds.append(kind)
        rows = np.eye(2, 8, dtype=np.float32)
        return {text: rows[int("bicycle" in text)] for text in texts}

    turns = [trial for trial in trials(folder, 1) if trial.kind == "turn"]
    table = await evidence(turns, ["best"], tmp_path / "replies", lambda *_: None, embed)
    assert set(kinds) == {Kind.PASSAGE, Kind.QUERY}
    assert table["best"]["talk.reply.evidence"] == 100
