"""Runs a blocking call in a thread that may be left behind."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Outcome(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Return what `call` returns; cancelling leaves the thread to itself.

    The thread is a daemon, which a worker of anyio is not: a call that never returns keeps neither
    its caller nor the end of the process. Starting one costs about 0.1 ms.

    Raises:
        RuntimeError: `call` raised what would end a program, such as `SystemExit`.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    outcome = _Outcome[T]()

    def work() -> None:
        try:
            outcome.value = call()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            outcome.error = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=work, name=name, daemon=True).start()
    await ended.wait()
    if isinstance(outcome.error, Exception):
        raise outcome.error
    if outcome.error is not None:
        raise RuntimeError(f"it raised {outcome.error!r}") from outcome.error
    return outcome.value  # type: ignore[return-value]  # set where there is no error
