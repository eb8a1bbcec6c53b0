"""QMD's own server, beside the memory that uses it: watched, replaced, ended."""

from pathlib import Path

import anyio
import pytest

from skerry.model.memory import MemoryQuestion
from tests.support.qmd import MINUTE, WHERE, QmdRig, served, until


@pytest.fixture
def rig(tmp_path: Path) -> QmdRig:
    return QmdRig(tmp_path)


async def test_the_server_answers_once_it_runs_and_ends_with_us(rig: QmdRig) -> None:
    async with served(rig) as (memory, daemon):
        first = await memory.search(WHERE)
        await until(lambda: daemon.ready)
        processes = len(rig.fake.calls("query"))
        second = await memory.search(WHERE)
        assert first == second
        assert len(rig.fake.calls("query")) == processes
        ((body,),) = rig.fake.calls("asked")
        assert body["searches"] == [{"type": "lex", "query": "harbour"}]
        assert body["rerank"] is False
        assert body["collections"] == ["memory-root", "memory-alt", "memory-dir"]
    assert daemon.process_id is None
    await until(lambda: rig.fake.running() == [])


@pytest.mark.requirement("qmd-fallback-manager")
async def test_when_the_server_dies_in_a_query_a_process_answers_it(rig: QmdRig) -> None:
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        rig.fake.behave(asked="die")
        assert len((await memory.search(WHERE)).hits) == 1
        await until(lambda: not daemon.ready)
        assert "ended with code 7" in (await memory.status()).notes[-1]
        starts = len(rig.fake.calls("mcp"))
        await memory.search(WHERE)
        assert len(rig.fake.calls("mcp")) == starts, "it rests"
        rig.fake.behave()
        rig.clock.advance(MINUTE)
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        assert daemon.reason == ""


@pytest.mark.parametrize("how", ["die", "segfault", "orphan"])
async def test_a_server_that_does_not_start_leaves_the_queries_to_processes(
    rig: QmdRig, how: str
) -> None:
    rig.fake.behave(mcp=how)
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.reason or daemon.ready)
        assert daemon.ready is (how == "orphan")
        assert len((await memory.search(WHERE)).hits) == 1
    await until(lambda: rig.fake.running() == [])


async def test_an_idle_server_is_ended_and_started_again_when_asked(rig: QmdRig) -> None:
    async with served(rig, idle=0.3) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        await until(lambda: not daemon.ready and daemon.process_id is None)
        assert daemon.reason == ""
        await memory.search(WHERE)
        await until(lambda: daemon.ready)


async def test_without_the_server_each_query_is_a_process(rig: QmdRig) -> None:
    async with served(rig, daemon=False) as (memory, _):
        await memory.search(WHERE)
        await memory.search(WHERE)
    assert rig.fake.calls("mcp") == []
    assert len(rig.fake.calls("query")) == 2


@pytest.mark.parametrize("how", ["garbage", "wrong", "flood", "segfault"])
async def test_a_server_that_answers_nonsense_leaves_the_query_to_a_process(
    rig: QmdRig, how: str
) -> None:
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        rig.fake.behave(asked=how)
        assert len((await memory.search(WHERE)).hits) == 1
        await until(lambda: not daemon.ready)
    await until(lambda: rig.fake.running() == [])


async def test_many_queries_are_under_way_at_once_and_one_that_is_given_up_spoils_none(
    rig: QmdRig,
) -> None:
    (rig.workspace / "memory/2026-01-02.md").write_text("The lighthouse.\n", "utf-8")
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        with anyio.move_on_after(0):
            await memory.search(WHERE)
        found: dict[str, str] = {}

        async def ask(word: str) -> None:
            found[word] = (await memory.search(MemoryQuestion(word))).hits[0].text

        async with anyio.create_task_group() as tasks:
            for word in ("harbour", "lighthouse", "momo"):
                tasks.start_soon(ask, word)
        assert [word for word, text in found.items() if word not in text.lower()] == []
        assert len(found) == 3
        assert daemon.ready


async def test_nobody_else_on_the_machine_can_ask_the_server(rig: QmdRig) -> None:
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        (arguments,) = rig.fake.calls("mcp")
        assert "--http" not in arguments
