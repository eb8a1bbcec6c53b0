"""Forgotten text is removed from the index and its files, also during a job that has read it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.database import no_fault
from skerry.features.memory.documents import Document
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.transcript_markdown import document
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryQuestion, TrackedConversation, Utterance
from skerry.model.redaction import Redaction
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.numbers import Floats

FACT = "The code of my locker is zebra quokka.\n"
REDACTION = Redaction(["zebra quokka"])


class Talk:
    """One conversation, which can be changed without any sign of it."""

    def __init__(self) -> None:
        self.text = FACT

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        assert since >= 0
        return [TrackedConversation("one", "agent:main:main", 2, 100, 1000)]

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        del after  # it is short
        return document(conversation, [Utterance(by_user=True, text=self.text, at=1000)], str)


class SlowEmbedder:
    """Gives vectors once it is let go on."""

    model = EmbeddingModel("test", "slow")
    dims: int | None = 4
    bulk = 100
    local = True

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.go_on = anyio.Event()

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        assert kind in Kind
        self.asked.set()
        await self.go_on.wait()
        return np.ones((len(texts), 4), np.float32)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text(f"Tea is good.\n{FACT}It rains.\n")
    (folder / "memory" / "boat.md").write_text("The boat is blue.\n")
    return folder


def opened(tmp_path: Path, workspace: Path, reach: Callable[[str], None] = no_fault) -> Index:
    path = tmp_path / "index" / "main.sqlite"
    return Index(path, IndexSettings(MemoryPaths(workspace)), SystemClock(), reach)


def forgotten(workspace: Path, talk: Talk) -> None:
    (workspace / "MEMORY.md").write_text("Tea is good.\nIt rains.\n")
    talk.text = "[forgotten]"


def holding(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith("-shm"):
            data = path.read_bytes().lower()
            if b"zebra" in data or b"quokka" in data:
                yield path.name


async def paths(memory: BuiltinMemory, text: str) -> list[str]:
    return [hit.path for hit in (await memory.search(MemoryQuestion(text))).hits]


async def test_no_file_of_the_index_has_a_word_of_it(tmp_path: Path, workspace: Path) -> None:
    talk, index = Talk(), opened(tmp_path, workspace)
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), transcripts=talk)
    await memory.sync()
    assert sorted(await paths(memory, "zebra")) == ["MEMORY.md", "sessions/one.md"]
    assert list(holding(tmp_path / "index"))
    forgotten(workspace, talk)  # with the size and the time that it had
    assert await memory.forget(REDACTION) == 2
    assert list(holding(tmp_path / "index")) == []
    assert await paths(memory, "zebra") == []
    assert await paths(memory, "blue boat") == ["memory/boat.md"]
    assert (await memory.status()).chunks == 3
    memory.close()
    assert list(holding(tmp_path / "index")) == []


@pytest.mark.parametrize("point", ["index.commit", "swap.built", "swap.renamed"])
async def test_a_job_that_has_read_it_already_does_not_write_it_back(
    tmp_path: Path, workspace: Path, point: str
) -> None:
    """The job is held in the middle, with the old text in its hands."""
    held, go_on = threading.Event(), threading.Event()

    def reach(name: str) -> None:
        if name == point and not held.is_set():
            held.set()
            assert go_on.wait(60)

    talk, index = Talk(), opened(tmp_path, workspace, reach)
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), transcripts=talk)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(memory.sync, force=point.startswith("swap")))
            assert await anyio.to_thread.run_sync(held.wait, 60)
            forgotten(workspace, talk)
            tasks.start_soon(memory.forget, REDACTION)
            await anyio.to_thread.run_sync(go_on.set)
    assert await paths(memory, "zebra") == []
    assert list(holding(tmp_path / "index")) == []
    assert sorted(await paths(memory, "tea rains boat")) == ["MEMORY.md", "memory/boat.md"]
    memory.close()


async def test_a_vector_that_was_asked_for_before_is_not_kept(
    tmp_path: Path, workspace: Path
) -> None:
    embedder = SlowEmbedder()
    index = opened(tmp_path, workspace)
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), embedder=lambda: embedder)
    await memory.read()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.embed)
            await embedder.asked.wait()
            forgotten(workspace, Talk())
            await memory.forget(REDACTION)
            embedder.go_on.set()
    with index.database.writing() as tables:
        connection = tables._db
        cached = {sha for (sha,) in connection.execute("SELECT content_hash FROM embedding_cache")}
        there = {sha for (sha,) in connection.execute("SELECT hash FROM chunks")}
    assert cached == there
    memory.close()
