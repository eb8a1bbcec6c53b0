"""The chain of the slot: the second backend answers if the first fails, until it works again."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest

from skerry.features.memory.slot import FallbackMemoryManager
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryFallback,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemoryStartingError,
    MemoryStatus,
    SyncReport,
)
from skerry.testing.clock import FakeClock

QUESTION = MemoryQuestion("where is the harbour?")
MINUTE = 60_000


@dataclass(slots=True)
class Scripted:
    """A memory that raises, hangs or answers."""

    name: str
    error: Exception | None = None
    sync_error: Exception | None = None
    hangs: bool = False
    fallback: MemoryFallback | None = None
    asked: int = 0
    synced: int = 0
    touched: int = 0
    gate: anyio.Event | None = None
    entered: anyio.Event = field(default_factory=anyio.Event)

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        assert question is QUESTION
        self.asked += 1
        self.entered.set()
        if self.hangs:
            await anyio.sleep_forever()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return MemoryAnswer((), self.name, "none", "", MemoryMode.TEXT, self.fallback)

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        assert force
        assert progress is None
        if self.sync_error is not None:
            raise self.sync_error
        self.synced += 1
        return SyncReport(added=1)

    def touch(self) -> None:
        self.touched += 1

    async def status(self) -> MemoryStatus:
        return MemoryStatus(
            agent="main",
            backend=self.name,
            files=0,
            chunks=0,
            dirty=False,
            indexed_at=None,
            provider="none",
            model="",
            mode=MemoryMode.TEXT,
            vectors=0,
            fallback=self.fallback,
        )


def slot(*backends: Scripted, seconds: float = 5) -> tuple[FallbackMemoryManager, FakeClock]:
    clock = FakeClock()
    return FallbackMemoryManager(backends, clock, seconds=lambda: seconds, last_seconds=5), clock


@pytest.mark.requirement("qmd-exclusive-backend")
async def test_the_first_of_the_chain_answers_alone() -> None:
    first, second = Scripted("qmd"), Scripted("builtin")
    memory, _ = slot(first, second)
    answer = await memory.search(QUESTION)
    assert (answer.backend, answer.fallback) == ("qmd", None)
    assert (first.asked, second.asked) == (1, 0)
    assert memory.name == "qmd"
    assert await memory.sync(force=True) == SyncReport(added=1, backend="qmd")
    assert (first.synced, second.synced) == (1, 0)


@pytest.mark.requirement("qmd-fallback-manager")
@pytest.mark.requirement("qmd-status-backend")
async def test_the_next_answers_within_the_same_query_and_tells_why() -> None:
    memory, _ = slot(Scripted("qmd", MemoryBackendError("it crashed")), Scripted("builtin"))
    answer = await memory.search(QUESTION)
    assert answer.backend == "builtin"
    assert answer.fallback == MemoryFallback("qmd", "it crashed")
    status = await memory.status()
    assert (status.backend, status.fallback) == ("builtin", MemoryFallback("qmd", "it crashed"))
    assert memory.name == "builtin"


async def test_a_memory_that_hangs_is_given_up_for_the_next() -> None:
    memory, _ = slot(Scripted("qmd", hangs=True), Scripted("builtin"), seconds=0.05)
    with anyio.fail_after(60):
        answer = await memory.search(QUESTION)
    assert answer.fallback == MemoryFallback("qmd", "it did not answer within 0.05 s")


async def test_what_a_plugin_raises_does_not_reach_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory, _ = slot(Scripted("plugin", ZeroDivisionError("oh")), Scripted("builtin"))
    answer = await memory.search(QUESTION)
    assert answer.fallback == MemoryFallback("plugin", "ZeroDivisionError: oh")
    assert "memory plugin failed" in caplog.text


async def test_the_remedy_is_beside_the_reason() -> None:
    error = MemoryBackendError("Node is too old.")
    error.remedy = "Install Node 22."
    memory, _ = slot(Scripted("qmd", error), Scripted("builtin"))
    answer = await memory.search(QUESTION)
    assert answer.fallback == MemoryFallback("qmd", "Node is too old. Install Node 22.")


async def test_after_a_failure_it_pauses_and_then_recovers_by_itself() -> None:
    first, second = Scripted("qmd", MemoryBackendError("down")), Scripted("builtin")
    memory, clock = slot(first, second)
    await memory.search(QUESTION)
    for times, minutes in enumerate((1, 5, 25, 25), 1):
        clock.advance(minutes * MINUTE - 1)
        await memory.search(QUESTION)
        assert first.asked == times, f"it rests {minutes} minutes"
        clock.advance(1)
        await memory.search(QUESTION)
        assert first.asked == times + 1
    first.error = None
    clock.advance(25 * MINUTE)
    assert (await memory.search(QUESTION)).fallback is None
    assert (await memory.status()).backend == "qmd"
    first.error = MemoryBackendError("down again")
    await memory.search(QUESTION)
    clock.advance(MINUTE)
    first.error = None
    assert (await memory.search(QUESTION)).backend == "qmd", "the rests begin with the first again"


async def test_one_query_alone_finds_out_whether_it_answers_again() -> None:
    first, second = Scripted("qmd", MemoryBackendError("down")), Scripted("builtin")
    memory, clock = slot(first, second)
    await memory.search(QUESTION)
    clock.advance(MINUTE)
    first.error, first.gate, first.entered = None, anyio.Event(), anyio.Event()
    answers: list[MemoryAnswer] = []

    async def search() -> None:
        answers.append(await memory.search(QUESTION))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            await first.entered.wait()
            await search()
            assert [answer.backend for answer in answers] == ["builtin"]
            first.gate.set()
    assert [answer.backend for answer in answers] == ["builtin", "qmd"]


@pytest.mark.requirement("qmd-fallback-manager")
async def test_each_has_its_share_of_the_time_of_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skerry.features.memory.slot.SHARE", 0.001)
    first = Scripted("qmd", hangs=True)
    memory, _ = slot(first, Scripted("builtin"), seconds=60)
    with anyio.fail_after(60):
        answer = await memory.search(QUESTION)
    assert answer.fallback is not None
    assert answer.fallback.reason.startswith("it did not answer within 0.0")
    await memory.search(QUESTION)
    assert first.asked == 1, "it rests"


async def test_a_query_that_is_given_up_after_long_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skerry.features.memory.slot.HANGS_SECONDS", 0.0)
    first = Scripted("qmd", hangs=True)
    memory, _ = slot(first, Scripted("builtin"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.search, QUESTION)
        await first.entered.wait()
        tasks.cancel_scope.cancel()
    answer = await memory.search(QUESTION)
    assert answer.fallback is not None
    assert "cancelled" in answer.fallback.reason


async def test_a_forced_sync_goes_to_the_first_also_where_another_serves() -> None:
    first, second = Scripted("qmd", MemoryBackendError("down")), Scripted("builtin")
    memory, _ = slot(first, second)
    await memory.search(QUESTION)
    assert await memory.sync(force=True) == SyncReport(added=1, backend="qmd")
    assert (first.synced, second.synced, memory.name) == (1, 0, "qmd")
    first.sync_error = MemoryBackendError("no room")
    first.error = MemoryBackendError("down")
    await memory.search(QUESTION)
    report = await memory.sync(force=True)
    assert (report.backend, report.fallback) == ("builtin", MemoryFallback("qmd", "no room"))


async def test_a_cancelled_query_does_not_keep_it_from_being_asked_again() -> None:
    first, second = Scripted("qmd", MemoryBackendError("down")), Scripted("builtin")
    memory, clock = slot(first, second)
    await memory.search(QUESTION)
    clock.advance(MINUTE)
    first.error, first.hangs, first.entered = None, True, anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.search, QUESTION)
        await first.entered.wait()
        tasks.cancel_scope.cancel()
    first.hangs = False
    assert (await memory.search(QUESTION)).backend == "qmd"


async def test_one_that_is_not_ready_yet_is_asked_again_at_the_next_query() -> None:
    first, second = Scripted("qmd", MemoryStartingError("indexing")), Scripted("builtin")
    memory, _ = slot(first, second)
    assert (await memory.search(QUESTION)).fallback == MemoryFallback("qmd", "indexing")
    first.error = None
    assert (await memory.search(QUESTION)).backend == "qmd"


async def test_when_none_answers_every_reason_is_told() -> None:
    first, second = (Scripted(one, MemoryBackendError(f"{one} is down")) for one in ("a", "b"))
    memory, _ = slot(first, second)
    with pytest.raises(MemoryBackendError, match=r"a: a is down\. b: b is down\."):
        await memory.search(QUESTION)
    second.error = None
    assert (await memory.search(QUESTION)).backend == "b", "the last is always asked"


async def test_the_fallback_of_the_one_that_serves_becomes_a_note() -> None:
    own = MemoryFallback("openai", "no key")
    memory, _ = slot(Scripted("qmd", MemoryBackendError("down")), Scripted("b", fallback=own))
    for told in (await memory.search(QUESTION), await memory.status()):
        assert told.fallback == MemoryFallback("qmd", "down")
        assert told.notes == ("openai does not answer: no key",)


async def test_all_clients_receive_the_event_of_changed_files() -> None:
    first, second = Scripted("qmd"), Scripted("builtin")
    memory, _ = slot(first, second)
    memory.touch()
    assert (first.touched, second.touched) == (1, 1)


def test_a_slot_without_a_memory_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one"):
        slot()
