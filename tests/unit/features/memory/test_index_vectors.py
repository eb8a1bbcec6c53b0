"""Vectors in the index: behind the text, from the cache, and whatever a provider answers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryMode, MemoryQuestion
from skerry_recall.embed import (
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    Kind,
    normalised,
)

MEANINGS = {"boat": 0, "ship": 0, "cat": 1, "kitten": 1, "tax": 2, "levy": 2}


@dataclass
class Meanings:
    """A model that knows six words. Implements `skerry_recall.embed.Embedder`."""

    model: EmbeddingModel = field(default_factory=lambda: EmbeddingModel("fake", "one"))
    local: bool = True
    bulk: int = 2
    dims: int | None = 4
    asked: list[str] = field(default_factory=list)
    answer: Callable[[int], NDArray[np.float32]] | EmbeddingError | None = None

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if kind is Kind.PASSAGE:
            self.asked += texts
        if isinstance(self.answer, EmbeddingError):
            raise self.answer
        if self.answer is not None:
            return self.answer(len(texts))
        rows = np.zeros((len(texts), 4), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word, position in MEANINGS.items():
                row[position] += word in text.lower()
            row[3] = 0.1
        return normalised(rows)


@dataclass
class VectorRig:
    """A memory with a model and three notes."""

    home: Path
    model: Meanings = field(default_factory=Meanings)

    def __post_init__(self) -> None:
        (self.notes / "memory").mkdir(parents=True)
        for name in ("boat", "cat", "tax"):
            self.note(name)
        self.open()

    @property
    def notes(self) -> Path:
        return self.home / "workspace"

    def note(self, name: str) -> None:
        (self.notes / "memory" / f"{name}.md").write_text(f"All about the {name}.\n")

    def open(self) -> None:
        index = Index(
            self.home / "main.sqlite", IndexSettings(MemoryPaths(self.notes)), SystemClock()
        )
        clock = SystemClock()
        self.memory = BuiltinMemory(AgentId("main"), index, clock, embedder=lambda: self.model)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[VectorRig]:
    made = VectorRig(tmp_path)
    yield made
    made.memory.close()


@pytest.mark.requirement("search-vector-engine")
async def test_meaning_finds_what_no_word_does(kept: VectorRig) -> None:
    assert (await kept.memory.sync()).embedded == 3
    answer = await kept.memory.search(MemoryQuestion("kitten"))
    assert answer.hits[0].path == "memory/cat.md"
    assert (answer.mode, answer.provider, answer.model) == (MemoryMode.HYBRID, "fake", "one")


async def test_words_find_a_new_file_before_it_has_a_vector(kept: VectorRig) -> None:
    await kept.memory.sync()
    kept.note("levy")
    answer = await kept.memory.search(MemoryQuestion("levy"))
    assert "memory/levy.md" in {hit.path for hit in answer.hits}
    assert len(kept.model.asked) == 3


@pytest.mark.requirement("memory-cache-reuse")
@pytest.mark.requirement("chunk-hash-dedup")
async def test_a_text_that_was_embedded_once_is_never_asked_for_again(kept: VectorRig) -> None:
    await kept.memory.sync()
    (kept.notes / "memory" / "copy.md").write_text("All about the cat.\n")
    assert (await kept.memory.sync()).embedded == 0
    assert (await kept.memory.sync(force=True)).embedded == 0
    assert len(kept.model.asked) == 3
    assert (await kept.memory.status()).vectors == 4


async def test_vectors_last_through_a_restart(kept: VectorRig) -> None:
    await kept.memory.sync()
    kept.memory.close()
    kept.open()
    answer = await kept.memory.search(MemoryQuestion("kitten"))
    assert answer.hits[0].path == "memory/cat.md"
    assert len(kept.model.asked) == 3


@pytest.mark.requirement("embed-cache-key")
async def test_another_model_embeds_all_again_and_the_first_comes_back_from_the_cache(
    kept: VectorRig,
) -> None:
    await kept.memory.sync()
    kept.model.model = EmbeddingModel("fake", "two")
    before = await kept.memory.search(MemoryQuestion("cat"))
    assert (before.mode, before.hits[0].path) == (MemoryMode.TEXT, "memory/cat.md")
    assert (await kept.memory.sync()).embedded == 3
    assert (await kept.memory.search(MemoryQuestion("kitten"))).mode is MemoryMode.HYBRID
    kept.model.model = EmbeddingModel("fake", "one")
    assert (await kept.memory.sync()).embedded == 0
    assert (await kept.memory.search(MemoryQuestion("kitten"))).mode is MemoryMode.HYBRID


def nan(texts: int) -> NDArray[np.float32]:
    return np.full((texts, 4), np.nan, np.float32)


def one_short(texts: int) -> NDArray[np.float32]:
    return np.full((texts - 1, 4), 0.5, np.float32)


@pytest.mark.requirement("memory-degradation")
@pytest.mark.parametrize(
    "answer",
    [
        nan,
        one_short,
        EmbeddingTimeoutError("It did not answer in 60 s."),
        EmbeddingError("It takes no more for now (429).", retry_after=30),
        EmbeddingRefusedError("It is no embedding model."),
    ],
    ids=["not a number", "one vector short", "slow", "rate limited", "refused"],
)
async def test_a_model_that_fails_leaves_the_words(
    kept: VectorRig, answer: Callable[[int], NDArray[np.float32]] | EmbeddingError
) -> None:
    kept.model.answer = answer
    report = await kept.memory.sync()
    assert (report.added, report.embedded) == (3, 0)
    found = await kept.memory.search(MemoryQuestion("cat"))
    assert (found.hits[0].path, found.mode) == ("memory/cat.md", MemoryMode.TEXT)
    status = await kept.memory.status()
    assert (status.vectors, status.mode) == (0, MemoryMode.TEXT)
    assert status.fallback is not None
    assert status.fallback.origin == "fake"
    kept.model.answer = None
    assert (await kept.memory.sync()).embedded == 3
    assert (await kept.memory.search(MemoryQuestion("kitten"))).mode is MemoryMode.HYBRID
    kept.model.answer = answer  # now that there are vectors to compare a question with
    found = await kept.memory.search(MemoryQuestion("cat"))
    assert (found.hits[0].path, found.mode) == ("memory/cat.md", MemoryMode.TEXT)
    assert found.fallback is not None


async def test_rot_in_the_cache_is_embedded_again(kept: VectorRig) -> None:
    await kept.memory.sync()
    with kept.memory._index.database.writing() as tables:
        tables._db.execute("UPDATE embedding_cache SET embedding = x'00'")
    assert (await kept.memory.sync(force=True)).embedded == 3
