"""Supervised work: its result, its cancellation, and work that ignores its cancellation."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from skerry.infra import supervise
from skerry.infra.backoff import Backoff
from skerry.infra.supervise import (
    ExitWatchdog,
    Idle,
    Supervisor,
    in_background,
    in_daemon_thread,
    keep_running,
)
from skerry.testing.clock import FakeClock


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(FakeClock(), grace=0.01)


async def test_it_returns_and_raises_what_the_work_does(supervisor: Supervisor) -> None:
    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def fail() -> None:
        raise RuntimeError("as planned")

    assert await supervisor.call(work, "work") == 7
    with pytest.raises(RuntimeError, match="as planned"):
        await supervisor.call(fail, "work")
    assert supervisor.abandoned() == []


async def test_what_is_cancelled_may_clean_up(supervisor: Supervisor) -> None:
    cleaned = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.set()

    with anyio.move_on_after(0.01) as scope:
        await supervisor.call(work, "work")
    assert scope.cancelled_caught
    assert cleaned.is_set()
    assert supervisor.abandoned() == []


async def test_work_that_does_not_end_is_abandoned_and_shown_until_it_ends(
    supervisor: Supervisor,
) -> None:
    end = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    async def deaf() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    with anyio.fail_after(60), anyio.move_on_after(0.01) as scope:
        await supervisor.call(deaf, "tool deaf")
    assert scope.cancelled_caught
    assert [work.name for work in supervisor.abandoned()] == ["tool deaf"]
    end.set()
    await asyncio.wait(tasks)
    await anyio.lowlevel.checkpoint()
    assert supervisor.abandoned() == []


async def test_what_is_started_ends_with_its_owner_or_is_abandoned(supervisor: Supervisor) -> None:
    end = asyncio.Event()
    quick = supervisor.start(asyncio.sleep(0), "quick")
    slow = supervisor.start(asyncio.sleep(600), "slow")
    supervisor.start(_deaf(end), "deaf")
    with anyio.fail_after(60):
        await supervisor.close(0.01)
    abandoned = [work.name for work in supervisor.abandoned()]
    end.set()
    assert (quick.cancelled(), slow.cancelled()) == (False, True)
    assert abandoned == ["deaf"]


async def _deaf(end: asyncio.Event) -> None:
    while not end.is_set():
        try:
            await end.wait()
        except asyncio.CancelledError:
            continue


def _fails(
    times: int, again: object = None
) -> tuple[list[int], Callable[[], Coroutine[Any, Any, object]]]:
    starts: list[int] = []

    async def run() -> object:
        starts.append(1)
        await anyio.lowlevel.checkpoint()
        if len(starts) < times:
            raise ValueError("no tea")
        return again if len(starts) == times else None

    return starts, run


async def test_work_that_fails_is_started_again_and_work_that_returns_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervise, "RESTARTS", Backoff(base=0.01, cap=60.0))
    starts, run = _fails(3)
    with anyio.fail_after(60):
        await keep_running(run, "service pond")
    assert len(starts) == 3
    starts, run = _fails(1, again=True)
    with anyio.fail_after(60):
        await keep_running(run, "adapter")
    assert len(starts) == 2


async def test_the_waits_between_failures_grow_until_it_ran_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0, 1, 10, 11, 20, 100, 110, 111, 120])
    monkeypatch.setattr(anyio, "current_time", lambda: float(next(times)))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    _, run = _fails(5)
    await keep_running(run, "service pond")
    assert waits == [1.0, 2.0, 1.0, 2.0]


async def test_idle_time_is_counted_from_the_end_of_the_last_use() -> None:
    idle = Idle(0.02)
    ended: list[bool] = []

    async def watch() -> None:
        await idle.over()
        ended.append(idle.users == 0)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            with idle.use():
                tasks.start_soon(watch)
                await anyio.sleep(0.1)
                assert not ended
    assert ended == [True]


async def test_the_work_runs_beside_the_block_and_is_cancelled_at_its_end() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def work() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(60):
        async with in_background(work):
            await began.wait()
    assert ended.is_set()


async def test_what_the_block_raises_comes_out_as_itself() -> None:
    with pytest.raises(KeyError):
        async with in_background(anyio.sleep_forever):
            raise KeyError


async def test_what_the_work_raises_ends_the_block() -> None:
    async def work() -> None:
        raise ValueError

    with anyio.fail_after(60), pytest.raises(ExceptionGroup):
        async with in_background(work):
            await anyio.sleep_forever()


async def test_it_returns_what_the_call_returns() -> None:
    thread = await in_daemon_thread(threading.current_thread, "a name")
    assert (thread.name, thread.daemon) == ("a name", True)


async def test_what_the_call_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, "test")


async def test_a_call_that_would_end_the_program_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="SystemExit"):
        await in_daemon_thread(lambda: sys.exit(3), "test")


async def test_a_call_that_hangs_is_left_behind() -> None:
    with anyio.move_on_after(0.05) as scope:
        await in_daemon_thread(threading.Event().wait, "test")
    assert scope.cancelled_caught


def test_a_call_that_hangs_does_not_hold_up_the_end_of_the_process() -> None:
    program = (
        "import anyio, threading\n"
        "from skerry.infra.supervise import in_daemon_thread\n"
        "async def main():\n"
        "    with anyio.move_on_after(0.05):\n"
        "        await in_daemon_thread(threading.Event().wait, 'test')\n"
        "anyio.run(main)\n"
    )
    completed = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert completed.returncode == 0


def test_the_last_limit_of_the_exit_watchdog_counts() -> None:
    codes: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        codes.append(code)
        gone.set()

    watchdog = ExitWatchdog(leave)
    watchdog.within(600, 1)
    watchdog.within(0.01, 75)
    assert gone.wait(60)
    assert codes == [75]
