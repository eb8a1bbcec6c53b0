"""Messages between their acceptance and their run: none is lost, none overtakes."""

import threading
from pathlib import Path

import anyio

from skerry.model.ids import RunId
from skerry.model.queue import QueueMode
from skerry.model.run import RunResult, StopReason
from skerry.store import runs
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request

STEER = QueueMode.STEER


class Stall:
    """Holds the store's thread before a COMMIT, once it is armed."""

    def __init__(self) -> None:
        self.armed = False
        self.reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, point: str) -> None:
        if self.armed and point == "store.before-commit":
            self.armed = False
            self.reached.set()
            assert self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def test_an_abort_while_a_message_is_admitted_does_not_lose_it(tmp_path: Path) -> None:
    gate, stall = ReplyGate(), Stall()
    model = ScriptedModel([[gate, "one"], ["two"]])
    async with open_core(tmp_path, model, reach=stall) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        async with anyio.create_task_group() as tasks:
            stall.armed = True
            tasks.start_soon(core.dispatch.submit, request("b", queue_mode=STEER))
            await anyio.to_thread.run_sync(stall.reached.wait)
            assert core.dispatch.abort(MAIN, RunId("a"), "rpc") == ["a"]
            stall.open()
        assert (await ended(core, "a")).stop_reason is StopReason.ABORTED
        assert (await ended(core, "b")).payloads == ("two",)
        assert await core.store.read(runs.unfinished) == []


async def test_what_did_not_get_in_goes_before_what_came_later(tmp_path: Path) -> None:
    gate, order = ReplyGate(), list[str]()
    model = ScriptedModel([["never", gate]])
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        for name in ("b", "c"):
            await core.dispatch.submit(request(name, queue_mode=STEER))
        await core.dispatch.submit(request("d"))
        core.dispatch.abort(MAIN, RunId("a"), "rpc")
        for name in "abcd":
            await ended(core, name)
        order += [result.run_id for result in core.ends()]
    assert order == ["a", "b", "c", "d"]


async def test_who_waits_for_a_key_that_is_looked_up_gets_the_stored_result(
    tmp_path: Path,
) -> None:
    stall = Stall()
    async with open_core(tmp_path, ScriptedModel(echo), reach=stall) as core:
        first = await core.ask("a", "key")
        results: list[RunResult | None] = []

        async def wait() -> None:
            results.append(await core.dispatch.wait(RunId("key"), 60))

        async with anyio.create_task_group() as tasks:
            stall.armed = True
            tasks.start_soon(core.dispatch.submit, request("a", "key"))
            await anyio.to_thread.run_sync(stall.reached.wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            stall.open()
        assert results == [first]
