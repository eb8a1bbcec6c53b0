"""When an index is brought up to date although nobody asks."""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import anyio
import pytest

from skerry.features.memory import index_keeper
from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_keeper import (
    COALESCE_SECONDS,
    EMBED_SECONDS,
    IDLE_SECONDS,
    LATE_SECONDS,
    MAX_SAVED_SECONDS,
    MESSAGE_LATE_SECONDS,
    MESSAGE_QUIET_SECONDS,
    MIN_SAVED_SECONDS,
    ORDER,
    QUIET_SECONDS,
    SHARE,
    SYNC_SECONDS,
    IndexKeeper,
    Rhythm,
    is_empty,
)
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.markdown_files import scan
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryFallback, MemorySource


class Counted:
    """Counts the calls of a memory."""

    def __init__(self) -> None:
        self.read_at: list[float] = []
        self.embedded = 0
        self.touched = 0
        self.fallback: MemoryFallback | None = None
        self.resized = False
        self.given: list[tuple[Sequence[MemorySource], float | None]] = []
        self.waiting = True

    async def read(self) -> object:
        self.read_at.append(0)
        return type("Report", (), {"failed": (), "chunks": 1})()

    async def embed(self, *, sources: Sequence[MemorySource], seconds: float | None) -> int:
        self.given.append((tuple(sources), seconds))
        self.embedded += sources != ORDER[1:]
        return 0

    async def waits(self) -> bool:
        return self.waiting

    def touch(self) -> None:
        self.touched += 1


def keeper(memory: Counted, look: object = None) -> IndexKeeper:
    made = IndexKeeper(lambda: cast("BuiltinMemory", memory), lambda: look, lambda: False)
    made._synced = made._embedded = 1000.0
    return made


@pytest.mark.requirement("memory-cycle-periodic")
def test_every_five_minutes_it_is_brought_up() -> None:
    made = keeper(Counted())
    assert not made.due(1000 + SYNC_SECONDS - 1)
    assert made.due(1000 + SYNC_SECONDS)
    assert SYNC_SECONDS == 300


@pytest.mark.requirement("memory-cycle-debounce")
def test_changes_wait_for_quiet_but_not_for_ever() -> None:
    made = keeper(Counted())
    made._since, made._last = 1000.0, 1000.0
    assert not made.due(1000 + QUIET_SECONDS - 0.1)
    assert made.due(1000 + QUIET_SECONDS)
    made._last = 1000 + COALESCE_SECONDS - 0.1
    assert not made.due(1000 + COALESCE_SECONDS - 0.05)
    assert made.due(1000 + COALESCE_SECONDS)
    assert (QUIET_SECONDS, COALESCE_SECONDS) == (1.5, 15)


@pytest.mark.requirement("memory-cycle-embed")
async def test_vectors_of_notes_follow_their_text_and_are_gone_over_every_hour() -> None:
    memory = Counted()
    made = keeper(memory)
    await made._do_due(1000 + SYNC_SECONDS)
    assert (len(memory.read_at), memory.embedded) == (1, 1)
    await made._do_due(1000 + SYNC_SECONDS + COALESCE_SECONDS)
    assert (len(memory.read_at), memory.embedded) == (1, 1)
    made._synced = 10_000.0
    made._embedded = 10_000.0 - EMBED_SECONDS
    await made._do_due(10_000)
    assert memory.embedded == 2
    assert EMBED_SECONDS == 3600


async def test_vectors_that_could_not_be_had_are_asked_for_again_soon_then_less_often() -> None:
    memory = Counted()
    made, memory.fallback = keeper(memory), MemoryFallback("openai", "nobody answers")
    made._embedded, made._synced = 1000.0 - EMBED_SECONDS, 1e6
    tried: list[int] = []
    for now in range(1000, 1500):
        await made._do_due(float(now))
        if memory.embedded > len(tried):
            tried.append(now)
    assert [later - earlier for earlier, later in pairwise(tried)] == [30, 60, 120, 240]
    memory.fallback = None
    await made._do_due(1e5)
    memory.embedded = 0
    await made._do_due(1e5 + EMBED_SECONDS - 1)
    assert memory.embedded == 0, "it had them all"


async def test_vectors_of_another_size_are_rebuilt_soon() -> None:
    memory = Counted()
    made = keeper(memory)
    memory.resized = True
    await made._do_due(1001)
    assert memory.embedded == 1


@pytest.mark.requirement("memory-cycle-debounce")
async def test_what_was_said_is_indexed_in_the_next_pause_or_while_it_goes_on() -> None:
    made = keeper(Counted())
    made.touched.add(["a"])
    made._take_touched(1000)
    assert not made.due(1000 + MESSAGE_QUIET_SECONDS - 0.1)
    assert made.due(1000 + MESSAGE_QUIET_SECONDS)
    for now in range(1000, 1000 + int(MESSAGE_LATE_SECONDS)):
        made.touched.add(["a"])
        made._take_touched(now)
        assert not made.due(now), "they talk"
    assert made.due(1000 + MESSAGE_LATE_SECONDS)


async def _hours(made: IndexKeeper, hours: int) -> None:
    for minute in range(60 * hours):
        made._synced = made._embedded = 1000.0 + 60 * minute
        await made._do_due(1000.0 + 60 * minute)


async def test_conversations_get_vectors_of_the_time_that_is_saved_for_them() -> None:
    memory = Counted()
    made = keeper(memory)
    await _hours(made, 3)
    seconds = [given for sources, given in memory.given if sources == ORDER[1:]]
    assert seconds, "an hour saves seven seconds"
    assert all(one is not None and MIN_SAVED_SECONDS <= one <= MAX_SAVED_SECONDS for one in seconds)
    assert MAX_SAVED_SECONDS < 3 * 3600 * SHARE


async def test_a_long_idle_time_saves_only_some_seconds_and_no_work_uses_none() -> None:
    memory = Counted()
    made, memory.waiting = keeper(memory), False
    await _hours(made, 3)
    assert (made._saved, memory.given) == (MAX_SAVED_SECONDS, [])


async def test_who_speaks_is_not_disturbed_by_vectors() -> None:
    memory = Counted()
    made = keeper(memory)
    made._saved = MAX_SAVED_SECONDS
    made.touched.add(["a"])
    made._synced = made._embedded = 1000.0
    await made._do_due(1000.0)
    await made._do_due(1000.0 + MESSAGE_QUIET_SECONDS - 1)
    assert memory.given == []
    await made._do_due(1000.0 + IDLE_SECONDS)
    assert [sources for sources, _ in memory.given] == [ORDER[:1], ORDER[1:]]


@pytest.mark.parametrize(("share", "expected"), [(0.0, [ORDER[:1]]), (1.0, [ORDER])])
async def test_without_a_share_words_alone_find_them_and_with_a_whole_core_vectors_come_at_once(
    share: float, expected: list[Sequence[MemorySource]]
) -> None:
    memory = Counted()
    made = keeper(memory)
    made.rhythm = lambda: Rhythm(share=share)
    made._embedded = 5000.0 - EMBED_SECONDS
    made._synced = 5000.0
    await made._do_due(5000.0)
    assert [sources for sources, _ in memory.given] == expected


@pytest.mark.requirement("memory-dirty-marking")
async def test_a_change_that_is_seen_marks_the_memory_dirty() -> None:
    memory = Counted()
    made = keeper(memory, look={"memory/a.md": 1})
    await made._look()
    await made._look()
    assert memory.touched == 1


async def test_a_look_that_waits_for_the_disk_or_the_processor_puts_the_next_one_off_little() -> (
    None
):
    slow = 0.05
    made = IndexKeeper(
        lambda: cast("BuiltinMemory", Counted()), lambda: time.sleep(slow), lambda: False
    )
    assert await made._look() < slow, "its CPU time counts, of which a thousandfold is waited"
    assert LATE_SECONDS <= 15, "a note is found by its meaning within seconds"


@pytest.mark.requirement("memory-dirty-marking")
@pytest.mark.requirement("memory-cycle-boot")
async def test_at_the_start_it_is_indexed_and_a_new_file_soon_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BOOT_SECONDS", "LOOK_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(index_keeper, name, 0.01)
    places = MemoryPaths(tmp_path)
    assert is_empty(places)
    (tmp_path / "MEMORY.md").write_text("The boat is blue.\n")
    assert not is_empty(places)
    index = Index(tmp_path / "main.sqlite", IndexSettings(places), SystemClock())
    memory = BuiltinMemory(AgentId("main"), index, SystemClock())
    made = IndexKeeper(lambda: memory, lambda: scan(places).stamps, lambda: is_empty(places))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            for expected in (1, 2):
                while (await memory.status()).files != expected:  # noqa: ASYNC110 - of the keeper
                    await anyio.sleep(0.02)
                (tmp_path / "memory.md").write_text("The ship is grey.\n")
            tasks.cancel_scope.cancel()
    memory.close()
