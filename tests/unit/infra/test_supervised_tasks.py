"""Work on a leash: what it returns, what cancels it, and what does not let itself be cancelled."""

import asyncio
from typing import Any

import anyio
import pytest

from skerry.infra.supervised_tasks import Leash
from skerry.testing.clock import FakeClock


@pytest.fixture
def leash() -> Leash:
    return Leash(FakeClock(), grace=0.01)


async def test_it_returns_and_raises_what_the_work_does(leash: Leash) -> None:
    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def fail() -> None:
        raise RuntimeError("as planned")

    assert await leash.do(work, "work") == 7
    with pytest.raises(RuntimeError, match="as planned"):
        await leash.do(fail, "work")
    assert leash.left() == []


async def test_what_is_cancelled_may_clean_up(leash: Leash) -> None:
    cleaned = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.set()

    with anyio.move_on_after(0.01) as scope:
        await leash.do(work, "work")
    assert scope.cancelled_caught
    assert cleaned.is_set()
    assert leash.left() == []


async def test_what_does_not_end_is_left_and_shown_until_it_ends(leash: Leash) -> None:
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
        await leash.do(deaf, "tool deaf")
    assert scope.cancelled_caught
    assert [one.what for one in leash.left()] == ["tool deaf"]
    end.set()
    await asyncio.wait(tasks)
    await anyio.lowlevel.checkpoint()
    assert leash.left() == []
