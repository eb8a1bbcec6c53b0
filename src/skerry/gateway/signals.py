"""Wakes services of features by a name, from the methods and tools of the same feature."""

import anyio


class Signals:
    """Named signals. One that is set while nobody waits ends the next wait at once."""

    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def set(self, name: str) -> None:
        """Wakes who waits for the name. Call it in the event loop."""
        self._events.setdefault(name, anyio.Event()).set()

    async def wait(self, name: str, seconds: float | None = None) -> None:
        """Waits until the name is set, or for that many seconds at most."""
        event = self._events.setdefault(name, anyio.Event())
        with anyio.move_on_after(seconds):
            await event.wait()
        if event.is_set() and self._events.get(name) is event:
            del self._events[name]
