"""Listeners inside the gateway for the events of single runs."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from skerry.model.event import RunEventBody
from skerry.model.ids import RunId

RunListener = Callable[[RunEventBody], object]
"""Called in the event loop after the clients of the gateway; it must not block or raise."""
RunListeners = dict[RunId, tuple[RunListener, ...]]
"""Listeners by run. A plain dictionary, so that an event without listeners costs one look-up."""


@contextmanager
def listening(listeners: RunListeners, run_id: RunId, listener: RunListener) -> Generator[None]:
    """Calls `listener` for each event of the run during the block."""
    listeners[run_id] = (*listeners.get(run_id, ()), listener)
    try:
        yield
    finally:
        remaining = tuple(each for each in listeners[run_id] if each is not listener)
        if remaining:
            listeners[run_id] = remaining
        else:
            del listeners[run_id]
