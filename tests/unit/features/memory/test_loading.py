"""A search while its embedding model is being loaded, or the index has no vectors yet."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.features.memory.builtin import LOADING, BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.query_embedding import LoadingError, ask
from skerry.features.memory.service import LOAD_SECONDS, MemorySearchService
from skerry.features.memory.tools import MemorySearch
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryFallback, MemoryMode, MemoryQuestion
from skerry.testing.memory import FakeBackend, FakeMemories
from skerry_recall.embed import EmbeddingModel, Kind
from tests.support.memory import MemoryRig, memory_rig

MAIN = AgentId("main")
USUAL, PATIENCE = 0.5, 30.0


@dataclass
class Slow:
    """A model that answers once it is loaded. Implements `skerry_recall.embed.Embedder`."""

    model: EmbeddingModel = field(default_factory=lambda: EmbeddingModel("local", "tiny"))
    local: bool = True
    bulk: int = 32
    dims: int | None = 2
    is_loading: bool = True
    loaded: anyio.Event = field(default_factory=anyio.Event)
    asked: int = 0

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        self.asked += kind is Kind.QUERY
        await self.loaded.wait()
        return np.ones((len(texts), 2), np.float32)

    def load(self) -> None:
        self.is_loading = False
        self.loaded.set()


async def test_a_model_that_is_being_loaded_has_more_time_than_one_that_hangs() -> None:
    slow = Slow()
    with anyio.fail_after(60):
        with pytest.raises(LoadingError):
            await ask(slow, "tea", USUAL, USUAL)
        slow.is_loading = False
        with pytest.raises(TimeoutError):
            await ask(slow, "tea", USUAL, PATIENCE)
        slow.is_loading = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, slow, "tea", USUAL, PATIENCE)
            while slow.asked < 5:  # noqa: ASYNC110 - it asks again and again
                await anyio.sleep(0.01)
            slow.load()


@pytest.fixture
def rig(tmp_path: Path) -> MemoryRig:
    rig = memory_rig(tmp_path)
    rig.put("MEMORY.md", "The ferry leaves at six.\n")
    return rig


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def memory(rig: MemoryRig, slow: Slow, tmp_path: Path) -> Iterator[BuiltinMemory]:
    clock = SystemClock()
    index = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(rig.workspace)), clock)
    memory = BuiltinMemory(MAIN, index, clock, embedder=lambda: slow)
    rig.service = MemorySearchService(FakeMemories(memory), rig.service.config, clock)  # type: ignore[arg-type]
    yield memory
    memory.close()


async def test_the_tool_says_that_the_model_is_being_loaded_and_to_ask_again(
    rig: MemoryRig, slow: Slow, memory: BuiltinMemory
) -> None:
    slow.load()
    await memory.sync()
    slow.is_loading, slow.loaded = True, anyio.Event()
    params = {"query": "Wann fährt die Fähre?"}
    with anyio.fail_after(60):
        payload = await rig.call(MemorySearch(rig.service), params)
    assert "disabled" not in payload, payload
    assert (payload["mode"], payload["fallback"]) == ("text", {"from": "local", "reason": LOADING})
    assert (await memory.status()).fallback is None, "it passes by itself"
    slow.load()
    payload = await rig.call(MemorySearch(rig.service), params)
    assert (payload["mode"], payload["fallback"]) == ("hybrid", None)
    assert "six" in json.dumps(payload["results"])


async def test_before_there_are_vectors_the_answer_says_how_many_are_missing(
    slow: Slow, memory: BuiltinMemory
) -> None:
    slow.load()
    await memory.read()
    answer = await memory.search(MemoryQuestion("ferry"))
    assert (answer.mode, len(answer.hits)) == (MemoryMode.TEXT, 1)
    text = "0 of 1 passages have a vector so far; ask again later"
    assert answer.fallback == MemoryFallback("local", text)
    await memory.embed()
    answer = await memory.search(MemoryQuestion("ferry"))
    assert (answer.mode, answer.fallback) == (MemoryMode.HYBRID, None)


async def test_a_person_waits_longer_for_a_model_than_a_tool_may(rig: MemoryRig) -> None:
    backend = FakeBackend()
    service = MemorySearchService(FakeMemories(backend), rig.service.config, SystemClock())
    await service.search(MAIN, MemoryQuestion("ferry"))
    assert backend.questions[0].patience == LOAD_SECONDS


@dataclass
class Noting(Slow):
    """A model that notes until when it is waited for."""

    until: list[float] = field(default_factory=list)

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if kind is Kind.QUERY:
            self.until.append(anyio.current_effective_deadline())
        return np.ones((len(texts), 2), np.float32)


async def test_of_the_little_time_that_another_memory_left_some_is_kept_for_the_search(
    rig: MemoryRig, tmp_path: Path
) -> None:
    model, clock = Noting(), SystemClock()
    index = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(rig.workspace)), clock)
    memory = BuiltinMemory(MAIN, index, clock, embedder=lambda: model)
    with anyio.fail_after(60):
        await memory.sync()
        await memory.search(MemoryQuestion("ferry"))
    model.until.clear()
    end = anyio.current_time() + 2.4  # less than it takes where there is time enough
    with anyio.CancelScope(deadline=end):
        await memory.search(MemoryQuestion("ferry"))
    memory.close()
    assert model.until
    assert all(until < end for until in model.until)
