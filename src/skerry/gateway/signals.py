"""Wakes services of features by name, from methods and tools of the same feature."""

import anyio


class Signals:
    """Named signals. A signal without a waiter ends the next wait at once."""

    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def set(self, name: str) -> None:
        """Sets the signal and wakes its waiters. Call it in the event loop."""
        self._events.setdefault(name, anyio.Event()).set()

    async def wait(self, name: str, seconds: float | None = None) -> None:
        """Waits until the signal is set, at most `seconds`."""
        event = self._events.setdefault(name, anyio.Event())
        with anyio.move_on_after(seconds):
            await event.wait()
        if event.is_set() and self._events.get(name) is event:
            del self._events[name]
