"""A full disk: callers get errors, no unit is written in part, and free space ends the failure."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.config.messages import QueueConfig
from skerry.model import message
from skerry.model.errors import StoreFailedError
from skerry.model.ids import RunId, SessionId
from skerry.model.message import ToolCall
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.run import StopReason
from skerry.runtime import run_context
from skerry.store import Store, Unit, open_store, runs, sessions
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request

LONG = "a long text " * 20_000


def limit(unit: Unit, pages: int) -> None:
    unit.one(f"PRAGMA max_page_count = {pages}")


@asynccontextmanager
async def full(store: Store, room: int = 0) -> AsyncGenerator[None]:
    """Limits the growth of the database in the block to `room` pages, by default none."""
    pages = await store.read(lambda reader: int((reader.one("PRAGMA page_count") or (0,))[0]))
    await store.write(partial(limit, pages=pages + room))
    yield
    await store.write(partial(limit, pages=1 << 30))


def say(unit: Unit, text: str) -> int:
    session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
    return sessions.append(unit, session_id, tail, "r1", [message.user(text, 1)], 1)


async def test_a_unit_that_finds_no_space_leaves_nothing_and_its_neighbours_alone(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "state.sqlite") as store:
        await store.write(lambda unit: say(unit, "before"))
        async with full(store), anyio.create_task_group() as tasks:

            async def fail() -> None:
                with pytest.raises(StoreFailedError, match="full"):
                    await store.write(lambda unit: say(unit, LONG))

            tasks.start_soon(fail)
            tasks.start_soon(store.write, lambda unit: say(unit, "small enough for the last page"))
        await store.write(lambda unit: say(unit, LONG))
        entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
        assert [entry.seq for entry in entries] == [1, 2, 3]


async def test_a_request_is_refused_and_can_be_sent_again(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["answer"]])) as core:
        async with full(core.store):
            with pytest.raises(StoreFailedError):
                await core.dispatch.submit(request(LONG, "k"))
            assert core.dispatch.active() == []
            assert await core.store.read(runs.unfinished) == []
        assert (await core.ask(LONG, "k")).payloads == ("answer",)


async def test_an_answer_waits_for_space(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, LONG], ["next"]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        async with full(core.store):
            gate.open()
            assert await core.dispatch.wait(RunId("a"), 0.2) is None
            assert core.ends() == []
        result = await ended(core, "a")
        assert result == (StopReason.DONE, (LONG,))
        assert (await core.ask("b")).payloads == ("next",)


async def test_a_tool_does_not_run_when_its_call_cannot_be_stored(tmp_path: Path) -> None:
    gate = ReplyGate()
    call = ToolCall("c1", "read", {"path": LONG})
    async with open_core(tmp_path, ScriptedModel([[gate, call]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        async with full(core.store):
            gate.open()
            assert await core.dispatch.wait(RunId("a"), 0.2) is None
        assert await ended(core, "a") == (StopReason.ERROR, ())
        (result,) = core.ends()
        assert result.error is not None
        assert (result.error.code, result.error.retryable) == ("state.failed", True)
        assert len(await core.transcript()) == 4  # question, call, its aborted result, failure


async def test_a_waiting_run_starts_when_there_is_space(tmp_path: Path) -> None:
    gate = ReplyGate()

    async with open_core(tmp_path, ScriptedModel([[gate, "one"], ["two"]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request(LONG, "b"))
        # The short answer may begin a page; the long message of the next run needs sixty.
        async with full(core.store, room=8):
            gate.open()
            await ended(core, "a")
            assert await core.dispatch.wait(RunId("b"), 0.2) is None
        assert await ended(core, "b") == (StopReason.DONE, ("two",))


async def test_a_gateway_that_stops_does_not_wait_for_space(tmp_path: Path) -> None:
    gate = ReplyGate()
    with anyio.fail_after(60):
        async with open_core(tmp_path, ScriptedModel([[gate, LONG]])) as core:
            await core.dispatch.submit(request("a"))
            await gate.reached.wait()
            await core.store.write(partial(limit, pages=1))
            gate.open()
            assert await core.dispatch.drain(0.2) is False
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        (open_run,) = await core.store.read(runs.unfinished)
        assert open_run.request.run_id == "a"


async def ended(core: Core, run_id: str) -> tuple[StopReason, tuple[str, ...]]:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result.stop_reason, result.payloads


async def test_the_end_of_a_command_beside_a_run_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_context, "STORE_SECONDS", 0.01)
    gate, requested, long, waits = ReplyGate(), anyio.Event(), anyio.Event(), anyio.Event()
    # The run reports it after the store has refused its end.
    monkeypatch.setattr(run_context.logger, "warning", lambda *_: waits.set())

    async def tell(_: CommandCall) -> str:
        requested.set()
        await long.wait()
        return LONG[:60_000]

    table = CommandTable()
    table.add(Command("tell", "", tell, at_once=True))
    model = ScriptedModel([[gate, "answer"]])
    async with open_core(tmp_path, model, commands=table) as core:
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            await core.dispatch.submit(request("/tell"))
            await requested.wait()
            async with full(core.store):
                long.set()
                await waits.wait()
                assert RunId("/tell") in core.dispatch.active(MAIN)
            result = await core.dispatch.wait(RunId("/tell"), None)
            assert result is not None
            gate.open()
            await core.dispatch.wait(RunId("hi"), None)
        assert await core.store.read(runs.unfinished) == []


async def test_a_message_is_told_that_it_was_dropped_when_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_context, "STORE_SECONDS", 0.01)
    gate, queue, refused = ReplyGate(), QueueConfig(debounce_ms=0, cap=1, drop=DropPolicy.NEW), 0
    async with open_core(tmp_path, ScriptedModel([[gate, "1"], ["2"]]), queue=queue) as core:
        write = core.store.write

        async def no_room_behind_its_acceptance(work: Callable[[Unit], Any]) -> Any:
            nonlocal refused
            active = core.dispatch.runtime.running.get(RunId("c"))
            if active is None or not active.session_id or refused == 2:
                return await write(work)
            refused += 1
            raise StoreFailedError("no room")

        monkeypatch.setattr(core.store, "write", no_room_behind_its_acceptance)
        await core.dispatch.submit(request("a"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        await core.dispatch.submit(request("b", queue_mode=QueueMode.COLLECT))
        await core.dispatch.submit(request("c", queue_mode=QueueMode.COLLECT))
        assert core.ends() == []
        assert await ended(core, "c") == (StopReason.ERROR, ())
        assert refused == 2
        assert [open_run.request.run_id for open_run in await core.store.read(runs.unfinished)] == [
            "a",
            "b",
        ]
        gate.open()
        assert await ended(core, "b") == (StopReason.DONE, ("2",))
