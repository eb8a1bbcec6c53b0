"""The contract of `ports.memory.MemoryBackend`, kept by every memory. A new one adds a row."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import pytest
from msgspec.structs import replace

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.slot import FallbackMemoryManager
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryQuestion,
    MemoryStatus,
)
from skerry.ports.memory import MemoryBackend, MemoryDocuments
from skerry.testing.clock import FakeClock
from skerry.testing.memory import FakeBackend, hit
from tests.support.qmd import QmdRig

FACT: Final = "The harbour opens at seven."
QUESTION: Final = MemoryQuestion("When does the harbour open?")


@dataclass
class Stage:
    """A memory over a workspace with some notes, of which one answers the question."""

    memory: MemoryBackend
    path: str
    """Ending of the path of the note that answers."""


Row = Callable[[Path], AbstractAsyncContextManager[Stage]]


def notes(home: Path) -> Path:
    """Writes the notes; returns the workspace."""
    workspace = home / "workspace"
    (workspace / "memory").mkdir(parents=True, exist_ok=True)
    (workspace / "MEMORY.md").write_text("# Facts\n\nThe cat is called Momo.\n", "utf-8")
    for day in range(1, 9):
        text = f"{FACT}\n" if day == 3 else f"Nothing of note on day {day}.\n"
        (workspace / f"memory/2026-01-0{day}.md").write_text(text, "utf-8")
    return workspace


def builtin(kind: type[BuiltinMemory] = BuiltinMemory) -> Row:
    @asynccontextmanager
    async def make(home: Path) -> AsyncIterator[Stage]:
        places = MemoryPaths(notes(home))
        index = Index(home / "index" / "main.sqlite", IndexSettings(places), SystemClock())
        memory = kind(AgentId("main"), index, SystemClock())
        yield Stage(memory, "memory/2026-01-03.md")
        memory.close()

    return make


@asynccontextmanager
async def qmd(home: Path) -> AsyncIterator[Stage]:
    rig = QmdRig(home)
    notes(home)
    memory = rig.memory(searchMode="search", limits={"timeoutMs": 60_000})
    await memory.sync()
    yield Stage(memory, "memory/2026-01-03.md")


def fake(kind: type[FakeBackend] = FakeBackend) -> Row:
    @asynccontextmanager
    async def make(home: Path) -> AsyncIterator[Stage]:
        del home
        path = "memory/2026-01-03.md"
        hits = [hit(path, FACT, 0.9), hit("MEMORY.md", "The cat is called Momo.", 0.2)]
        yield Stage(kind(hits), path)

    return make


def slot(row: Row) -> Row:
    """Returns the row of the chain with one memory behind a first one that fails."""

    @asynccontextmanager
    async def make(home: Path) -> AsyncIterator[Stage]:
        async with row(home) as stage:
            broken = FakeBackend(name="broken", failure=MemoryBackendError("it is away"))
            chain = FallbackMemoryManager([broken, stage.memory], FakeClock())
            yield Stage(chain, stage.path)

    return make


ROWS: Final[dict[str, Row]] = {
    "builtin": builtin(),
    "qmd": qmd,
    "slot": slot(builtin()),
    "fake": fake(),
}


async def search(stage: Stage, question: MemoryQuestion = QUESTION) -> MemoryAnswer:
    with anyio.fail_after(60):
        return await stage.memory.search(question)


async def finds_the_note_that_answers(stage: Stage) -> None:
    answer = await search(stage)
    assert answer.hits
    best = answer.hits[0]
    assert best.path.endswith(stage.path)
    assert FACT in best.text
    assert 1 <= best.start_line <= best.end_line


async def ranks_from_the_best_within_the_limit(stage: Stage) -> None:
    for limit in (1, 3):
        answer = await search(stage, replace(QUESTION, limit=limit))
        scores = [hit.score for hit in answer.hits]
        assert 1 <= len(scores) <= limit
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


async def leaves_out_what_is_not_good_enough(stage: Stage) -> None:
    everything = (await search(stage)).hits
    least = everything[0].score
    good = (await search(stage, replace(QUESTION, min_score=least))).hits
    assert good
    assert all(hit.score >= least for hit in good)


async def says_who_answered(stage: Stage) -> None:
    answer = await search(stage)
    assert stage.memory.name
    assert answer.backend == stage.memory.name
    status = await stage.memory.status()
    assert status.backend == answer.backend


async def reports_its_state_before_it_was_asked(stage: Stage) -> None:
    status = await stage.memory.status()
    assert isinstance(status, MemoryStatus)
    stage.memory.touch()
    assert isinstance(await stage.memory.status(), MemoryStatus)


async def syncs_twice_to_the_same(stage: Stage) -> None:
    with anyio.fail_after(60):
        await stage.memory.sync()
        report = await stage.memory.sync()
    assert (report.added, report.changed, report.removed, report.failed) == (0, 0, 0, ())
    assert (await search(stage)).hits


async def has_the_document_of_its_hit_or_none(stage: Stage) -> None:
    best = (await search(stage)).hits[0]
    if isinstance(stage.memory, MemoryDocuments):
        document = await stage.memory.document(best.path)
        assert document is None or FACT in document.text
        assert await stage.memory.document("qmd/none/none.md") is None


Clause = Callable[[Stage], Awaitable[None]]
CONTRACT: Final[list[Clause]] = [
    finds_the_note_that_answers,
    ranks_from_the_best_within_the_limit,
    leaves_out_what_is_not_good_enough,
    says_who_answered,
    reports_its_state_before_it_was_asked,
    syncs_twice_to_the_same,
    has_the_document_of_its_hit_or_none,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_memory_keeps_the_contract(row: Row, clause: Clause, tmp_path: Path) -> None:
    async with row(tmp_path) as stage:
        await clause(stage)


class Upside(FakeBackend):
    """Gives the worst first, and more than it is asked for."""

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        answer = await super().search(replace(question, limit=50))
        return replace(answer, hits=list(answer.hits)[::-1])


class Generous(FakeBackend):
    """Does not look at the least score."""

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        return await super().search(replace(question, min_score=0.0))


class Nameless(FakeBackend):
    """Says that another memory answered."""

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        return replace(await super().search(question), backend="builtin")


class Empty(FakeBackend):
    """Finds nothing."""

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        return replace(await super().search(question), hits=())


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Upside, ranks_from_the_best_within_the_limit),
        (Generous, leaves_out_what_is_not_good_enough),
        (Nameless, says_who_answered),
        (Empty, finds_the_note_that_answers),
    ],
)
async def test_a_memory_with_a_defect_breaks_it(
    defect: type[FakeBackend], clause: Clause, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError):
        async with fake(defect)(tmp_path) as stage:
            await clause(stage)
