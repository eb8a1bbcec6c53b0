"""Work beside a block."""

import anyio
import pytest

from skerry.infra.tasks import beside


async def test_the_work_runs_beside_the_block_and_is_cancelled_at_its_end() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def work() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(60):
        async with beside(work):
            await began.wait()
    assert ended.is_set()


async def test_what_the_block_raises_comes_out_as_itself() -> None:
    with pytest.raises(KeyError):
        async with beside(anyio.sleep_forever):
            raise KeyError


async def test_what_the_work_raises_ends_the_block() -> None:
    async def work() -> None:
        raise ValueError

    with anyio.fail_after(60), pytest.raises(ExceptionGroup):
        async with beside(work):
            await anyio.sleep_forever()
