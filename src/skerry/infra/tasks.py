"""Runs work beside a block."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio


@asynccontextmanager
async def beside(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    """Runs `work` while the block runs, and cancels it at the block's end.

    What the block raises comes out as it is, so that callers can catch it by its type; a bare task
    group would wrap it into an `ExceptionGroup`. What `work` raises ends the block.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again below
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
