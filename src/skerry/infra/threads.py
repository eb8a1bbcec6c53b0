"""Runs a blocking call in a thread that may be left behind."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Runs `call` in a thread and returns its result; cancelling leaves the thread running.

    The thread is a daemon, which a worker of anyio is not: a call that never returns keeps neither
    its caller nor the end of the process. Starting one costs about 0.1 ms.

    Raises:
        RuntimeError: `call` raised what would end a program, such as `SystemExit`.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            errors.append(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=work, name=name, daemon=True).start()
    await ended.wait()
    for error in errors:
        if isinstance(error, Exception):
            raise error
        raise RuntimeError(f"it raised {error!r}") from error
    return values[0]
