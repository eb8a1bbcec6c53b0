"""Calls each handler in a separate task, with a deadline, and counts its failures.

An async handler runs in a task that the runner owns. Its caller stops waiting at the deadline, even
if the handler swallows its cancellation. A plain function runs in a daemon thread: it cannot be
interrupted, and in the event loop it would block every conversation. An async handler that blocks
the loop cannot be stopped within one process; blocking work belongs in a plain function.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Generic, Self, TypeVar

import anyio
from msgspec import Struct

from skerry.infra.clock import Clock
from skerry.infra.supervise import Supervisor, in_daemon_thread

logger = logging.getLogger(__name__)

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

PAUSE_AFTER: Final = 3
"""Failures in a row after which a handler is paused."""
PAUSE_MS: Final = 60_000
MAX_CALLS: Final = 256
"""Limit on the active calls of one handler; a call that never returns counts for ever."""
LAST_SECONDS: Final = 5.0
"""Seconds that active calls have to end when the runner stops."""
GRACE_SECONDS: Final = 1.0
"""Seconds that cancelled calls have to end."""


class Handler(Generic[P, R]):
    """A plugin's function at a hook point. Handlers run by priority, the highest first."""

    __slots__ = (
        "after_compaction",
        "call",
        "failures",
        "in_a_row",
        "last_error",
        "last_failed_at",
        "plugin",
        "priority",
        "runs_on_inspection",
        "under_way",
        "when",
    )

    def __init__(
        self,
        plugin: str,
        call: Callable[[P], Awaitable[R | None] | R | None],
        priority: int = 0,
        when: Callable[[P], bool] | None = None,
    ) -> None:
        self.plugin = plugin
        self.when = when
        """Synchronous filter: the handler is called if it returns true; None means always."""
        self.call = call
        self.priority = priority
        self.after_compaction = False
        """True if it is called only for conversations that were compacted; see `RunHooks`."""
        self.runs_on_inspection = False
        """True if it is also called when a prompt is only inspected; it must have no effects."""
        self.failures = 0
        self.in_a_row = 0
        self.last_error = ""
        self.last_failed_at = 0
        self.under_way: set[HandlerCall[P, R]] = set()
        """Active calls; a call that exceeded its deadline stays until its function returns."""

    def is_paused(self, now: int) -> bool:
        """Returns whether it is paused after failures at `now`, in milliseconds since 1970."""
        return self.in_a_row >= PAUSE_AFTER and 0 <= now - self.last_failed_at < PAUSE_MS


class HandlerReport(Struct, frozen=True):
    """Health of one handler, as `doctor` and `status` print it."""

    hook: str
    plugin: str
    priority: int
    failures: int
    """Failures since the start of the gateway."""
    last_error: str
    """Text of the last error; empty if it never failed."""
    last_failed_at: int
    """Milliseconds since 1970; 0 if it never failed."""
    resting: bool
    """True while the handler is paused: for a minute after three failures in a row."""


class HandlerError(Exception):
    """A handler failed, was late, or returned a wrong value; `doctor` prints the message."""


class HandlerCall(Generic[P, R]):
    """A call of a handler that has begun."""

    __slots__ = ("async_", "ended", "error", "handler", "hook", "in_thread", "task", "value")

    def __init__(self, hook: str, handler: Handler[P, R]) -> None:
        self.hook = hook
        self.handler = handler
        self.async_ = inspect.iscoroutinefunction(handler.call)
        self.in_thread = False
        self.task: asyncio.Task[None] | None = None
        self.ended = anyio.Event()
        self.value: object = None
        self.error: Exception | None = None

    def cancel(self) -> None:
        """Cancels its task once: a scope would cancel it again in each round of the event loop."""
        if self.task is not None:
            self.task.cancel()


class Runner(anyio.AsyncContextManagerMixin):
    """Owns the tasks of handlers. Use as `async with` before the first handler is called.

    At the end of the block, active calls have five seconds, then they are cancelled.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._supervisor = Supervisor(clock, GRACE_SECONDS)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            yield self
        finally:
            await self._supervisor.close(LAST_SECONDS)

    def now(self) -> int:
        """Returns the time in milliseconds since 1970."""
        return self._clock.now_ms()

    def report(self, hook: str, handler: Handler[P, R]) -> HandlerReport:
        """Returns the health of the handler."""
        return HandlerReport(
            hook,
            handler.plugin,
            handler.priority,
            handler.failures,
            handler.last_error,
            handler.last_failed_at,
            handler.is_paused(self.now()),
        )

    def begin(
        self, hook: str, handler: Handler[P, R], payload: P, *, wait: bool = True
    ) -> HandlerCall[P, R]:
        """Calls the handler in a separate task; if `wait` is false, an awaitable is a failure.

        Raises:
            HandlerError: the handler is paused.
        """
        if handler.is_paused(self.now()):
            raise HandlerError(f"it is paused after {handler.in_a_row} failures in a row")
        call = HandlerCall(hook, handler)
        if len(handler.under_way) >= MAX_CALLS:
            call.error = HandlerError(f"{MAX_CALLS} calls have not returned")
            call.ended.set()
        else:
            handler.under_way.add(call)
            call_name = f"hook {hook} of {handler.plugin}"
            call.task = self._supervisor.start(_work(call, payload, wait=wait), call_name)
            call.task.add_done_callback(partial(_ended, call))
        return call

    def watch(self, call: HandlerCall[P, R], seconds: float) -> None:
        """Supervises the call in the background for `seconds`; its result is ignored."""
        self._supervisor.start(self._watch(call, seconds), f"hook {call.hook}")

    async def end(self, call: HandlerCall[P, R], seconds: float, read: Callable[[object], T]) -> T:
        """Waits at most `seconds`; returns the handler's value, converted by `read`.

        Raises:
            HandlerError: the handler failed or was late, or `read` raised.
        """
        handler = call.handler
        try:
            with anyio.move_on_after(seconds):
                await call.ended.wait()
            if not call.ended.is_set():
                raise HandlerError(f"it did not return within {seconds:g} s")  # noqa: TRY301 - counted like what it raises
            if call.error is not None:
                raise call.error  # noqa: TRY301 - the same
            result = read(call.value)
        except Exception as error:
            logger.exception("hook %s: plugin %s failed", call.hook, handler.plugin)
            handler.failures += 1
            handler.in_a_row += 1
            handler.last_failed_at = self.now()
            handler.last_error = str(error) or type(error).__name__
            raise HandlerError(handler.last_error) from error
        finally:
            call.cancel()
        handler.in_a_row = 0
        return result

    async def _watch(self, call: HandlerCall[P, R], seconds: float) -> None:
        with suppress(HandlerError):
            await self.end(call, seconds, ignore)


def ignore(_: object) -> None:
    """Ignores the value that a handler returned."""


async def _work(call: HandlerCall[P, R], payload: P, *, wait: bool) -> None:
    """Calls the handler and stores its value or its exception in `call`; raises nothing."""
    try:
        call.value = await _outcome(call, payload, wait=wait)
    except (asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
        call.error = HandlerError(f"it raised {error!r}")
    except Exception as error:  # noqa: BLE001 - raised again by `end`
        call.error = error


def _ended(call: HandlerCall[P, R], _: "asyncio.Task[None]") -> None:
    """Marks the call as ended; its task may have been cancelled before it began."""
    if not call.in_thread:
        call.handler.under_way.discard(call)
    call.ended.set()


def _plain(call: HandlerCall[P, R], payload: P) -> object:
    """Calls a plain function in a thread; it stays in `under_way` until it returns."""
    try:
        return call.handler.call(payload)
    finally:
        call.handler.under_way.discard(call)


async def _outcome(call: HandlerCall[P, R], payload: P, *, wait: bool) -> object:
    hook, handler = call.hook, call.handler
    value: object
    if call.async_:
        value = handler.call(payload)
    else:
        name = f"hook {hook} of {handler.plugin}"
        call.in_thread = True
        value = await in_daemon_thread(partial(_plain, call, payload), name)
    if not inspect.isawaitable(value):
        return value
    if wait:
        return await value
    if inspect.iscoroutine(value):
        value.close()
    logger.warning("Async in sync hook: %s of plugin %s", hook, handler.plugin)
    raise HandlerError("Async in sync hook: use a plain function")
