"""Listeners inside the gateway for the events of single runs."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

from skerry.model.event import RunEvent, RunEventBody
from skerry.model.ids import RunId

Listener = Callable[[RunEventBody], object]
"""Called in the event loop after the clients of the gateway; it must not block or raise."""
_NONE: Final[tuple[Listener, ...]] = ()


class RunListeners(Struct):
    """Functions that receive the events of one run each."""

    _listeners: dict[RunId, tuple[Listener, ...]] = field(default_factory=dict)

    @contextmanager
    def listening(self, run_id: RunId, listener: Listener) -> Generator[None]:
        """Calls `listener` for each event of the run during the block."""
        self._listeners[run_id] = (*self._listeners.get(run_id, _NONE), listener)
        try:
            yield
        finally:
            remaining = tuple(each for each in self._listeners[run_id] if each is not listener)
            if remaining:
                self._listeners[run_id] = remaining
            else:
                del self._listeners[run_id]

    def tell(self, event: RunEvent) -> None:
        """Passes an event to the listeners of its run."""
        for listener in self._listeners.get(event.run_id, _NONE):
            listener(event.body)
