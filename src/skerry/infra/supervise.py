"""Supervision of third-party work: a task that does not end blocks no caller.

A cancel scope waits until its task has ended; a task that swallows its cancellation would block its
lane for ever. A caller of this module waits a limited time after the cancellation. A task that
still runs then is abandoned, counted, and listed.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import anyio
from msgspec import Struct

from skerry.infra.backoff import Backoff
from skerry.infra.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")
GRACE_SECONDS: Final = 10.0
"""Seconds that cancelled work may take to clean up."""
RESTARTS: Final = Backoff(base=1.0, cap=60.0)
"""Waits before a service or an adapter that failed is started again."""


class AbandonedWork(Struct, frozen=True):
    """A task that was cancelled and did not end."""

    name: str
    since: int
    """Time at which it was abandoned, in milliseconds since 1970."""


class Supervisor:
    """Owns tasks that may hang, and lists those that it abandoned."""

    def __init__(self, clock: Clock, grace: float = GRACE_SECONDS) -> None:
        self._clock = clock
        self._grace = grace
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._abandoned: dict[asyncio.Task[Any], AbandonedWork] = {}

    def abandoned(self) -> list[AbandonedWork]:
        """Returns the work that was abandoned and has not ended since, oldest first."""
        return list(self._abandoned.values())

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Starts `work` and returns its task; `name` appears in logs, such as `tool exec`."""
        # A task group would wait for a task that does not end.
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)
        return task

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Runs `work` and returns its result, or raises its exception.

        When the caller is cancelled, `work` is cancelled and has `grace` seconds to end.
        """
        task = self.start(work(), name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._cancel([task])
            raise

    async def close(self, seconds: float) -> None:
        """Waits `seconds` for all tasks, cancels them, and abandons those that still run."""
        with anyio.CancelScope(shield=True):
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=seconds)
            await self._cancel(list(self._tasks))

    async def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()  # once: a scope would do it again in each round of the loop
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)
        for task in tasks:
            if not task.done():
                name = self._tasks[task]
                logger.error("%s was cancelled and did not end in %g s", name, self._grace)
                self._abandoned[task] = AbandonedWork(name, self._clock.now_ms())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if not task.cancelled():
            task.exception()  # else the event loop logs that it was never retrieved
        if self._abandoned.pop(task, None) is not None:
            logger.warning("%s, which was abandoned, has ended", name)


async def keep_running(work: Callable[[], Awaitable[object]], name: str) -> None:
    """Runs `work`, and runs it again when it raises or returns True. Returns otherwise.

    The waits between runs follow `RESTARTS`. A run longer than the longest wait resets them.
    """
    failures = 0
    while True:
        began = anyio.current_time()
        try:
            if await work() is not True:
                return
        except Exception:
            # A failure of one service or platform must not end the others.
            logger.exception("%s failed", name)
        failures = 1 if anyio.current_time() - began > RESTARTS.cap else failures + 1
        wait = RESTARTS.delay(failures)
        logger.info("%s is started again in %g s", name, wait)
        await anyio.sleep(wait)


class Idle:
    """Counts the uses of a child process, so that an unused process can be ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = anyio.current_time()
        self.users = 0
        """Number of uses under way."""

    @contextmanager
    def use(self) -> Generator[None]:
        """Counts the block as a use."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self._last = anyio.current_time()

    async def over(self) -> None:
        """Waits until the process was unused for `seconds`."""
        while True:
            remaining = self._last + self._seconds - anyio.current_time()
            if self.users:
                remaining = self._seconds
            if remaining <= 0:
                return
            await anyio.sleep(remaining)


@asynccontextmanager
async def in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    """Runs `work` concurrently with the block, and cancels it at the end of the block.

    An exception of the block is raised unwrapped, so that callers can catch it by its type; a task
    group would wrap it into an `ExceptionGroup`. An exception of `work` cancels the block.
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


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Runs all `waits` concurrently until one returns, then cancels the others."""
    async with anyio.create_task_group() as tasks:

        async def first(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            tasks.cancel_scope.cancel()

        for wait in waits:
            tasks.start_soon(first, wait)


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Runs `call` in a new thread and returns its result, or raises its exception.

    Cancelling returns at once; the thread goes on. The thread is a daemon, unlike a worker of
    anyio, so a call that never returns does not block the end of the process. A thread costs about
    0.1 ms.

    Raises:
        RuntimeError: `call` raised a `BaseException` that is no `Exception`, such as `SystemExit`.
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
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=work, name=name, daemon=True).start()
    await ended.wait()
    for error in errors:
        if isinstance(error, Exception):
            raise error
        raise RuntimeError(f"it raised {error!r}") from error
    return values[0]


class ExitWatchdog:
    """Ends the process when third-party work prevents its exit.

    At its end an event loop waits for every task, and the interpreter for every non-daemon thread.
    A tool that swallows its cancellation, or a call that never returns, would block both.
    """

    def __init__(self, exit_process: Callable[[int], object] = os._exit) -> None:
        self._exit_process = exit_process
        self._timer: threading.Timer | None = None

    def within(self, seconds: float, code: int) -> None:
        """Ends the process with `code` after `seconds`. A later call replaces the limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self._go, (code,))
        self._timer.daemon = True
        self._timer.start()

    def _go(self, code: int) -> None:
        alive = [thread.name for thread in threading.enumerate() if not thread.daemon]
        logger.error("the process does not end (threads: %s); exiting", ", ".join(alive))
        sys.stdout.flush()
        self._exit_process(code)
