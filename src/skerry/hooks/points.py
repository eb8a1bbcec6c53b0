"""The kinds of hook points: the rights of a handler and the effect of its failure.

Observe        handlers watch, all at once; a handler that fails is skipped
Transform      handlers change the payload in turn, highest priority first; a failed one is skipped
SyncTransform  the same with plain functions, before a transcript entry is written
Guard          handlers change or refuse; a handler that fails refuses the action
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from skerry.hooks.runner import Handler, HandlerError, HandlerReport, Runner, ignore

SECONDS = 5.0
MAX_CHANGE = 32 * 1024 * 1024
"""Limit on the JSON of a change, in bytes."""


class Changeable(Protocol):
    """A payload that handlers may change."""

    @property
    def closed(self) -> bool:
        """Returns whether no further handler is called."""
        ...


class Refusable(Changeable, Protocol):
    """A payload that handlers may refuse."""

    def refused(self, reason: str) -> Self:
        """Returns the refused payload."""
        ...


P = TypeVar("P")
D = TypeVar("D", bound=Changeable)
G = TypeVar("G", bound=Refusable)
R = TypeVar("R")


class Point(Generic[P, R]):
    """A named hook point with its handlers, in the order in which they run."""

    __slots__ = ("_runner", "handlers", "name", "payload", "returns", "timeout")
    kind: ClassVar[str]
    on_failure: ClassVar[str]

    def __init__(
        self,
        name: str,
        runner: Runner,
        payload: type[P],
        returns: type[R],
        timeout: float = SECONDS,
    ) -> None:
        self.name = name
        self.payload = payload
        self.returns = returns
        self.timeout = timeout
        """Seconds that each handler has."""
        self.handlers: tuple[Handler[P, R], ...] = ()
        self._runner = runner

    def add(self, handler: Handler[P, R]) -> None:
        """Adds the handler from the next call on; equal priorities keep their order."""
        self.handlers = tuple(
            sorted((*self.handlers, handler), key=lambda entry: entry.priority, reverse=True)
        )

    def remove(self, plugin: str) -> None:
        """Takes out every handler of the plugin."""
        self.handlers = tuple(handler for handler in self.handlers if handler.plugin != plugin)

    def report(self) -> list[HandlerReport]:
        """Returns the health of each handler."""
        return [self._runner.report(self.name, handler) for handler in self.handlers]


class Observe(Point[P, object]):
    """Handlers that watch, all at the same time. Their return values are ignored."""

    __slots__ = ()
    kind = "observe"
    on_failure = "The handler is skipped."

    def __init__(self, name: str, runner: Runner, payload: type[P]) -> None:
        super().__init__(name, runner, payload, object)

    def start(self, payload: P) -> None:
        """Starts every handler, in order, and waits for none."""
        for handler in self.handlers:
            with suppress(HandlerError):  # it is paused
                self._runner.watch(self._runner.begin(self.name, handler, payload), self.timeout)

    async def run(self, payload: P) -> None:
        """Returns when every handler has ended or exceeded its time limit."""
        calls = []
        for handler in self.handlers:
            with suppress(HandlerError):  # it is paused
                calls.append(self._runner.begin(self.name, handler, payload))
        for call in calls:
            with suppress(HandlerError):  # counted; the other handlers continue
                await self._runner.end(call, self.timeout, ignore)


class Transform(Point[D, R]):
    """Handlers that change the payload in turn; each gets the result of the one before."""

    __slots__ = ("_merge",)
    kind = "transform"
    on_failure = "The handler is skipped; its changes are not applied."
    _wait = True

    def __init__(
        self,
        name: str,
        runner: Runner,
        merge: Callable[[D, R], D],
        *,
        payload: type[D],
        returns: type[R],
        timeout: float = SECONDS,
    ) -> None:
        super().__init__(name, runner, payload, returns, timeout)
        self._merge = merge

    async def run(self, payload: D, handlers: Sequence[Handler[D, R]] | None = None) -> D:
        """Returns the payload after all handlers, or after the given ones."""
        for handler in self.handlers if handlers is None else handlers:
            if handler.when is not None and not handler.when(payload):
                continue
            try:
                payload = await self._changed(handler, payload)
            except HandlerError:
                payload = self._failed(handler, payload)
            if payload.closed:
                break
        return payload

    async def _changed(self, handler: Handler[D, R], payload: D) -> D:
        call = self._runner.begin(self.name, handler, payload, wait=self._wait)
        return await self._runner.end(call, self.timeout, partial(self._merged, payload))

    def _merged(self, payload: D, returned: object) -> D:
        change = _checked(returned, self.returns)
        return payload if change is None else self._merge(payload, change)

    def _failed(self, handler: Handler[D, R], payload: D) -> D:  # noqa: ARG002 - for guards
        return payload


class SyncTransform(Transform[D, R]):
    """A transform whose handlers are plain functions; an awaitable result is a failure.

    They run before a transcript entry is written, in a thread with a deadline: a function that
    hangs cannot be interrupted, and in the event loop it would block every conversation.
    """

    __slots__ = ()
    kind = "synchronous transform"
    _wait = False


class Guard(Transform[G, R]):
    """A transform that may refuse. A failed or paused handler refuses; the rest is not called."""

    __slots__ = ()
    kind = "guard"
    on_failure = "The action is refused: a broken guard must not allow it."

    def _failed(self, handler: Handler[G, R], payload: G) -> G:
        # The error goes only to the log: a model or a platform reads this text.
        return payload.refused(
            f"The {self.name} hook of plugin {handler.plugin} failed, so this was refused. The"
            " gateway's log has the reason."
        )


def _checked(value: object, returns: type[R]) -> R | None:
    """Returns the value if it is None or a `returns` whose fields have their types.

    Without this check, a change that cannot be stored would fail only at the end of the run, which
    then could not be stored either.

    Raises:
        HandlerError: the value has another type or a wrong field, is no Unicode, or is too large.
    """
    if value is None:
        return None
    if not isinstance(value, returns):
        raise HandlerError(f"it returned {type(value).__name__}, not {returns.__name__} or None")
    names: tuple[str, ...] = returns.__struct_fields__  # type: ignore[attr-defined]  # every change is a struct
    fields = {name: getattr(value, name) for name in names}
    try:
        msgspec.convert(fields, returns)
    except msgspec.ValidationError as error:
        raise HandlerError(f"it returned a wrong {returns.__name__}: {error}") from error
    try:
        size = len(msgspec.json.encode(fields, enc_hook=str))
    except UnicodeEncodeError as error:
        raise HandlerError(f"it returned text that is no Unicode: {error.reason}") from error
    if size > MAX_CHANGE:
        raise HandlerError(f"it returned {size} bytes; the limit is {MAX_CHANGE}")
    return value
