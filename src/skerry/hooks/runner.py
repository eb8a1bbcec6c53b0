"""Calls handlers so that none can do harm: in a task of its own, with a deadline, counted.

An async handler runs in a task that the runner owns, and whoever waits for it stops waiting at the
deadline, even if the handler swallows its cancellation. A plain function runs in a daemon thread:
it cannot be interrupted, and in the loop it would stop every conversation. Against an async handler
that blocks the loop, nothing in one process helps; blocking work belongs into a plain function.
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

REST_AFTER: Final = 3
"""Failures in a row after which a handler is left alone."""
REST_MS: Final = 60_000
MAX_CALLS: Final = 256
"""Calls of one handler that may be under way; one that never returns counts for ever."""
LAST_SECONDS: Final = 5.0
"""Seconds at the stop for started calls that nobody waits for."""
GRACE_SECONDS: Final = 1.0
"""Seconds for cancelled calls to end."""


class Handler(Generic[P, R]):
    """A plugin's function at a hook point; of two, the one with the higher priority runs first."""

    __slots__ = (
        "after_compaction",
        "call",
        "failures",
        "in_a_row",
        "last_error",
        "last_failed_at",
        "plugin",
        "priority",
        "shown",
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
        """Says at once whether it is called at all; None is always."""
        self.call = call
        self.priority = priority
        self.after_compaction = False
        """True when it is called only for conversations that were compacted; see `RunHooks`."""
        self.shown = False
        """True when it is also called for a mere look at a prompt; it then has no effects."""
        self.failures = 0
        self.in_a_row = 0
        self.last_error = ""
        self.last_failed_at = 0
        self.under_way: set[HandlerCall[P, R]] = set()
        """A call that was given up stays until its function returns."""

    def resting(self, now: int) -> bool:
        """Returns whether it failed so often that it is left alone at `now`, ms since 1970."""
        return self.in_a_row >= REST_AFTER and 0 <= now - self.last_failed_at < REST_MS


class HandlerReport(Struct, frozen=True):
    """Health of one handler, as `doctor` and `status` print it."""

    hook: str
    plugin: str
    priority: int
    failures: int
    """Since the start of the gateway."""
    last_error: str
    """Empty when it never failed."""
    last_failed_at: int
    """Milliseconds since 1970; 0 when it never failed."""
    resting: bool
    """True while the handler is not called because it failed three times in a row within a
    minute."""


class HandlerError(Exception):
    """A handler did not do what handlers do; the message says what, for `doctor`."""


class HandlerCall(Generic[P, R]):
    """One call of a handler, which has begun."""

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
        """Asks it to end, once: a scope would ask again in each round of the event loop."""
        if self.task is not None:
            self.task.cancel()


class Runner(anyio.AsyncContextManagerMixin):
    """Owns the tasks of handlers. Use as `async with` before the first handler is called.

    Leaving the block gives what is under way five seconds, then cancels it.
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
        """Returns milliseconds since 1970."""
        return self._clock.now_ms()

    def report(self, hook: str, handler: Handler[P, R]) -> HandlerReport:
        """Returns how the handler does."""
        return HandlerReport(
            hook,
            handler.plugin,
            handler.priority,
            handler.failures,
            handler.last_error,
            handler.last_failed_at,
            handler.resting(self.now()),
        )

    def begin(
        self, hook: str, handler: Handler[P, R], payload: P, *, wait: bool = True
    ) -> HandlerCall[P, R]:
        """Calls the handler in a task of its own; with `wait` false an awaitable is a failure.

        Raises:
            HandlerError: it is paused.
        """
        if handler.resting(self.now()):
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

    def leave(self, call: HandlerCall[P, R], seconds: float) -> None:
        """Looks after the call without waiting for it; what it returns is not looked at."""
        self._supervisor.start(self._watch(call, seconds), f"hook {call.hook}")

    async def end(self, call: HandlerCall[P, R], seconds: float, read: Callable[[object], T]) -> T:
        """Waits at most `seconds`; returns what `read` makes of what the handler returned.

        Raises:
            HandlerError: it failed, was late, or `read` raised.
        """
        handler = call.handler
        try:
            with anyio.move_on_after(seconds):
                await call.ended.wait()
            if not call.ended.is_set():
                raise HandlerError(f"it did not return within {seconds:g} s")  # noqa: TRY301 - counted like what it raises
            if call.error is not None:
                raise call.error  # noqa: TRY301 - the same
            made = read(call.value)
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
        return made

    async def _watch(self, call: HandlerCall[P, R], seconds: float) -> None:
        with suppress(HandlerError):
            await self.end(call, seconds, ignore)


def ignore(_: object) -> None:
    """Makes nothing of what a handler returned."""


async def _work(call: HandlerCall[P, R], payload: P, *, wait: bool) -> None:
    """Calls the handler; whatever it raises is told in `call` and does not leave this task."""
    try:
        call.value = await _outcome(call, payload, wait=wait)
    except (asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
        call.error = HandlerError(f"it raised {error!r}")
    except Exception as error:  # noqa: BLE001 - raised again by who waits, if anybody does
        call.error = error


def _ended(call: HandlerCall[P, R], _: "asyncio.Task[None]") -> None:
    """Notes that its task has ended, which may have been cancelled before it began."""
    if not call.in_thread:
        call.handler.under_way.discard(call)
    call.ended.set()


def _plain(call: HandlerCall[P, R], payload: P) -> object:
    """Calls a plain function, in a thread; it is under way until it returns, whoever waits."""
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
