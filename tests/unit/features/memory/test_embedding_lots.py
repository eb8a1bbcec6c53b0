"""Passages get their vectors a thousand at a time, and a stop loses no more than a batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.features.memory import passage_embedding
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry_recall.embed import EmbeddingError, EmbeddingModel, Kind, normalised

if TYPE_CHECKING:
    from skerry.model.memory import MemoryProgress


class Model:
    """Embeds until the test makes it fail. Implements `skerry_recall.embed.Embedder`."""

    model = EmbeddingModel("fake", "one")
    local = True
    dims = 4

    def __init__(self, bulk: int = 4, fails_after: int | None = None) -> None:
        self.bulk = bulk
        self.batches: list[int] = []
        self._fails_after = fails_after

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        del kind
        if len(self.batches) == self._fails_after:
            raise EmbeddingError("the model is gone")
        self.batches.append(len(texts))
        rows = [[len(text), sum(map(ord, text)), 1, 1] for text in texts]
        return normalised(np.array(rows, np.float32))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    for number in range(20):
        (notes / f"{number}.md").write_text(f"Note {number} of the boat.\n")
    made = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "workspace")), SystemClock()
    )
    made.sync()
    return made


def vectors(index: Index) -> tuple[int, int]:
    with index.tables() as tables:
        return tables.vector_counts()


async def test_a_model_is_asked_as_much_at_once_as_it_likes(index: Index) -> None:
    small, large = Model(bulk=8), Model(bulk=50_000)
    assert await passage_embedding.embed(index, small, lambda _: None) == 20
    assert small.batches == [8, 8, 4]
    large.model = EmbeddingModel("fake", "two")
    assert await passage_embedding.embed(index, large, lambda _: None) == 20
    assert large.batches == [20]
    index.close()


async def test_passages_get_them_in_large_lots(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    lots: list[int] = []
    give = index.embed

    def counted(label: str, rows: Sequence[tuple[int, bytes]]) -> None:
        lots.append(len(rows))
        give(label, rows)

    monkeypatch.setattr(index, "embed", counted)
    await passage_embedding.embed(index, Model(bulk=4), lambda _: None)
    assert lots == [20]
    index.close()


async def test_progress_goes_from_nothing_to_all(index: Index) -> None:
    told: list[MemoryProgress] = []
    await passage_embedding.embed(index, Model(bulk=8), told.append)
    assert [(memory_progress.done, memory_progress.total) for memory_progress in told] == [
        (8, 20),
        (16, 20),
        (20, 20),
    ]
    index.close()


async def test_a_model_that_fails_leaves_what_it_did_and_the_next_run_goes_on(
    index: Index,
) -> None:
    with pytest.raises(EmbeddingError):
        await passage_embedding.embed(index, Model(fails_after=2), lambda _: None)
    assert vectors(index) == (8, 20)
    again = Model()
    assert await passage_embedding.embed(index, again, lambda _: None) == 12
    assert vectors(index) == (20, 20)
    index.close()
