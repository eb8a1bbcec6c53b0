"""The relayer killed at each step: accepted texts are stored once, forgotten texts are gone."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from skerry_relayer.assembly import RunningMemory
from skerry_relayer.errors import DownError
from skerry_relayer.folders import Folders
from skerry_relayer.ports import Caller, Item, Query
from tests.support.relayer_memory import delegate, ended, memory, rewrapped, run_killed, stored
from tests.support.relayer_program import TEXTS, VECTOR


async def texts(running: RunningMemory, caller: Caller) -> list[str]:
    answer = await running.memories.recall(caller, Query("default", 100, "ferry or cat"))
    assert not answer.dropped
    return sorted(hit.text for hit in answer.hits)


async def settled(running: RunningMemory, caller: Caller, count: int) -> None:
    """Waits until a namespace has so many memories."""
    with anyio.fail_after(60):
        while True:
            if (await running.memories.stats(caller, "default")).memory_count >= count:
                return
            await anyio.sleep(0.01)


def files(root: Path) -> list[str]:
    return sorted(path.name for path in Folders(root).blobs.rglob("*") if path.is_file())


async def swept(root: Path, count: int) -> None:
    """Waits until so many blobs are left."""
    with anyio.fail_after(60):
        while True:
            if len(files(root)) == count:
                return
            await anyio.sleep(0.01)


POINTS = ("remember.accepted", "job.embedded", "job.noted", "job.written", "job.done")


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_relayer_stores_each_accepted_text_once(tmp_path: Path, point: str) -> None:
    caller = delegate(tmp_path).caller()
    run_killed(tmp_path, "remember", point)
    async with memory(tmp_path) as running:
        await settled(running, caller, len(TEXTS))
        assert await texts(running, caller) == sorted(TEXTS)
        job = await stored(running.memories, caller, TEXTS[0])
        assert job.status == "done"
        assert await texts(running, caller) == sorted(TEXTS)
        restored = await running.memories.restore(caller, "default", 100)
        assert (restored.restored, restored.failed) == (0, 0)
    async with memory(tmp_path):
        await swept(tmp_path, len(TEXTS))


@pytest.mark.parametrize("point", ["manual.noted", "manual.written"])
async def test_a_killed_manual_write_is_stored_or_leaves_nothing(
    tmp_path: Path, point: str
) -> None:
    caller = delegate(tmp_path).caller()
    run_killed(tmp_path, "manual", point)
    async with memory(tmp_path) as running:
        query = Query("default", 5, vector=tuple(VECTOR))
        assert not (await running.memories.recall_manual(caller, query)).hits
        assert (await running.memories.restore(caller, "default", 100)).restored == 0
        await swept(tmp_path, 0)


@pytest.mark.parametrize("point", ["forget.committed", "sweep.deleted"])
async def test_a_killed_forgetting_is_finished_by_the_next_start(
    tmp_path: Path, point: str
) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        for text in TEXTS:
            await stored(running.memories, caller, text)
    run_killed(tmp_path, "forget", point)
    async with memory(tmp_path) as running:
        assert await texts(running, caller) == []
        assert (await running.memories.restore(caller, "default", 100)).restored == 0
        await swept(tmp_path, 0)


@pytest.mark.parametrize("point", ["rewrap.drawn", "rewrap.blob", "rewrap.wrapped"])
async def test_a_killed_rewrap_loses_nothing_and_is_finished_by_the_next(
    tmp_path: Path, point: str
) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        for text in TEXTS:
            await stored(running.memories, caller, text)
    run_killed(tmp_path, "rewrap", point)
    async with memory(tmp_path) as running:
        assert await texts(running, caller) == sorted(TEXTS)
        assert (await rewrapped(tmp_path)).dropped == 1
        assert await texts(running, caller) == sorted(TEXTS)


async def test_a_killed_restore_is_finished_by_the_next(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        for text in TEXTS:
            await stored(running.memories, caller, text)
    for file in Folders(tmp_path).database.iterdir():
        file.unlink()
    run_killed(tmp_path, "restore", "restore.added")
    async with memory(tmp_path) as running:
        restored = await running.memories.restore(caller, "default", 100)
        assert (restored.restored, restored.skipped) == (1, 1)
        assert await texts(running, caller) == sorted(TEXTS)


async def test_a_killed_key_server_is_started_again_and_loses_nothing(tmp_path: Path) -> None:
    caller = delegate(tmp_path).caller()
    async with memory(tmp_path) as running:
        (job,) = await running.memories.remember(caller, [Item(TEXTS[0])])
        os.kill(key_server_of(os.getpid()), signal.SIGKILL)
        assert (await ended(running.memories, caller, job.id)).status == "done"
        with anyio.fail_after(60):
            while True:
                try:
                    assert await texts(running, caller) == [TEXTS[0]]
                    break
                except DownError:
                    await anyio.sleep(0.05)
        assert await running.memories.ready()


def key_server_of(parent: int) -> int:
    """Returns the id of the key server that a process started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            status = (path / "status").read_text()
        except OSError:
            continue
        if b"skerry_relayer.keys.server" in command and f"PPid:\t{parent}\n" in status:
            return int(path.name)
    raise AssertionError("there is no key server")
