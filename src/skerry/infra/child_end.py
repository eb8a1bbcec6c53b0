"""Notifies an event loop of the end of a child process."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress


def when_ended(pid: int, wait: Callable[[], object], then: Callable[[], None]) -> None:
    """Calls `then` in the running loop once the child `pid` has ended.

    Uses a pidfd. Without one (no Linux, or a filter of system calls), a thread calls `wait`, which
    returns at the end of the child.
    """
    loop = asyncio.get_running_loop()
    try:
        number = os.pidfd_open(pid)
    except (AttributeError, OSError):
        threading.Thread(target=_wait, args=(loop, wait, then), daemon=True).start()
        return

    def ended() -> None:
        loop.remove_reader(number)
        os.close(number)
        then()

    loop.add_reader(number, ended)


def _wait(
    loop: asyncio.AbstractEventLoop, wait: Callable[[], object], then: Callable[[], None]
) -> None:
    wait()
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(then)
