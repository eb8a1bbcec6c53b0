"""The kinds of hook points, which differ in what a handler may do and in what its failure means.

Observe        watches; all handlers at once; a failure concerns nobody
Transform      changes; one after another, highest priority first; who fails is skipped
SyncTransform  the same for plain functions, where a transcript entry is written
Guard          changes or refuses; who fails refuses, so that a broken guard opens no gate
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from skerry.hooks.runner import Handler, HandlerError, HandlerReport, Runner, ignore

SECONDS = 5.0
MAX_CHANGE = 32 * 1024 * 1024
"""Bytes that a change may have as JSON."""


class Changeable(Protocol):
    """A payload that handlers may change."""

    @property
    def closed(self) -> bool:
        """Returns whether no further handler is asked."""
        ...


class Refusable(Changeable, Protocol):
    """A payload that handlers may refuse."""

    def refused(self, reason: str) -> Self:
        """Returns it as refused."""
        ...


P = TypeVar("P")
D = TypeVar("D", bound=Changeable)
G = TypeVar("G", bound=Refusable)
R = TypeVar("R")


class Point(Generic[P, R]):
    """A named place with its handlers, in the order in which they run."""

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
        """Lets the handler take part from the next call on; equal priorities keep their order."""
        self.handlers = tuple(
            sorted((*self.handlers, handler), key=lambda other: other.priority, reverse=True)
        )

    def remove(self, plugin: str) -> None:
        """Takes out every handler of the plugin."""
        self.handlers = tuple(handler for handler in self.handlers if handler.plugin != plugin)

    def report(self) -> list[HandlerReport]:
        """Returns how each handler does."""
        return [self._runner.report(self.name, handler) for handler in self.handlers]


class Observe(Point[P, object]):
    """Handlers that watch, all at the same time. What they return is not looked at."""

    __slots__ = ()
    kind = "observe"
    on_failure = "The handler is skipped; nobody else notices."

    def __init__(self, name: str, runner: Runner, payload: type[P]) -> None:
        super().__init__(name, runner, payload, object)

    def start(self, payload: P) -> None:
        """Lets every handler begin, in order, and waits for none."""
        for handler in self.handlers:
            with suppress(HandlerError):  # it is paused
                self._runner.leave(self._runner.begin(self.name, handler, payload), self.timeout)

    async def run(self, payload: P) -> None:
        """Returns when every handler has ended or is late."""
        calls = []
        for handler in self.handlers:
            with suppress(HandlerError):  # it is paused
                calls.append(self._runner.begin(self.name, handler, payload))
        for call in calls:
            with suppress(HandlerError):  # counted; the others go on
                await self._runner.end(call, self.timeout, ignore)


class Transform(Point[D, R]):
    """Handlers that change the payload, one after another; each gets what those before made."""

    __slots__ = ("_merge",)
    kind = "transform"
    on_failure = "The handler is skipped; the payload stays as it was before it."
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
        """Returns the payload after every handler, or after those that are given."""
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
    """A transform whose handlers are plain functions: what they return counts at once.

    They run where a transcript entry is about to be written, in a thread with a deadline: a
    function that hangs cannot be interrupted, and in the loop it would stop everything.
    """

    __slots__ = ()
    kind = "synchronous transform"
    _wait = False


class Guard(Transform[G, R]):
    """A transform that may refuse. A failed or paused handler refuses, and no other is called."""

    __slots__ = ()
    kind = "guard"
    on_failure = "What was to happen is refused: a broken guard opens no gate."

    def _failed(self, handler: Handler[G, R], payload: G) -> G:
        # What went wrong is for the log: a model, or a platform, reads this.
        return payload.refused(
            f"Plugin {handler.plugin}, which guards this ({self.name}), does not work. The owner"
            " finds the reason in the log."
        )


def _checked(value: object, returns: type[R]) -> R | None:
    """Returns the value if it is None or a `returns` whose fields have their types.

    A change that could not be stored would be noticed when the run ends, and it could not end.
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
        raise HandlerError(f"it returned {size} bytes; a change may have {MAX_CHANGE}")
    return value
