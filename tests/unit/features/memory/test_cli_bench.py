"""`skerry memory bench` prints the hits of the memory."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.cli.main import main
from skerry.features.memory.cli_bench import shared
from skerry_recall.embed import EmbeddingModel, EmbeddingUnavailableError, Kind

TALK = {"scope": "c", "id": "D1", "session": "s", "speaker": "Ada", "text": "The boat is red."}
ASKED = {"scope": "c", "question": "Which colour has the boat?", "category": 1, "evidence": ["D1"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one set of one conversation."""
    (tmp_path / "talk.docs.jsonl").write_text(json.dumps(TALK), encoding="utf-8")
    (tmp_path / "talk.queries.jsonl").write_text(json.dumps(ASKED), encoding="utf-8")
    return tmp_path


def test_json_has_one_object_a_profile(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "bench", "--data", str(data), "--text", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["best", "openclaw", "classic", "fts5-and", "fts5-or", "bm25-rrf"]
    assert report["best"]["talk.turn.recall@5"] == 100.0


def test_the_folder_comes_from_the_environment(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKERRY_DATA", str(data))
    assert main(["memory", "bench", "--text", "--only", "session", "--profile", "best"]) == 0
    printed = capsys.readouterr().out
    assert "talk.session.recall@5" in printed
    assert "classic" not in printed
    assert "turn" not in printed


def test_a_folder_without_data_fails_and_says_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", "bench", "--data", str(tmp_path), "--text"]) == 1
    assert "SKERRY_DATA" in capsys.readouterr().err


def test_a_kind_that_is_not_there_names_those_that_are(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", "bench", "--data", str(data), "--text", "--only", "chunking"]) == 1
    assert "session, turn" in capsys.readouterr().err


def test_the_plot_is_written(data: Path, tmp_path: Path) -> None:
    plot = tmp_path / "recall.svg"
    assert main(["memory", "bench", "--data", str(data), "--text", "--plot", str(plot)]) == 0
    assert plot.read_text(encoding="utf-8").startswith("<svg ")


class Counting:
    """Gives each text its number as a vector; refuses `no`."""

    model = EmbeddingModel("test", "counting")
    local = True
    bulk = 4
    dims: int | None = 1

    def __init__(self) -> None:
        self.asked = 0

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        assert kind is Kind.PASSAGE
        self.asked += len(texts)
        if "no" in texts:
            raise EmbeddingUnavailableError("It is away.")
        return np.array([[float(text)] for text in texts], np.float32)


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_workers_share_the_texts_and_keep_their_order(count: int) -> None:
    workers = [Counting() for _ in range(3)]
    rows = await shared(workers, Kind.PASSAGE, [str(number) for number in range(count)])
    assert rows[:, 0].tolist() == list(range(count))
    assert max(worker.asked for worker in workers) <= -(-count // 3)
    with pytest.raises(EmbeddingUnavailableError, match="away"):
        await shared(workers, Kind.PASSAGE, ["1", "no"])
