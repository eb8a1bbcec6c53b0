"""Collects the output of a command: its head and its tail, and reports it while it grows."""

from collections.abc import Callable
from typing import Final

import anyio
import anyio.abc

MOST_CHARS: Final = 30_000
"""Characters of output in a result; beyond them the middle is left out."""
_HEAD: Final = 10_000
REPORT_SECONDS: Final = 0.25
"""Seconds between two reports."""


class Output:
    """Output of one command, of which the first and the last characters are kept."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        self._reported = float("-inf")

    @property
    def text(self) -> str:
        """Returns the output as a model gets it."""
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        if not self._left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        return f"{head}\n[{self._left_out} bytes left out]\n{tail}"

    def add(self, part: bytes) -> None:
        """Adds a part, and reports the output so far if the last report is old enough."""
        self._take(part)
        now = anyio.current_time()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._report(self.text)

    def _take(self, part: bytes) -> None:
        room = _HEAD - len(self._head)
        self._head += part[: max(room, 0)]
        self._tail += part[max(room, 0) :]
        over = len(self._tail) - (MOST_CHARS - _HEAD)
        if over > 0:
            del self._tail[:over]
            self._left_out += over

    async def read(self, stream: anyio.abc.ByteReceiveStream) -> None:
        """Reads a stream until its end."""
        try:
            async for part in stream:
                self.add(part)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
