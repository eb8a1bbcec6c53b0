"""Send queue of one client: ordered, counted in bytes, with droppable frames."""

from collections import deque
from collections.abc import Callable
from typing import Final

from skerry.gateway import frames
from skerry.gateway.frames import MAX_BUFFERED
from skerry.gateway.protocol import GatewayProtocol

MAX_DELTAS: Final = 1024 * 1024
"""Bytes that may wait before deltas are dropped."""
_WRITE_BYTES: Final = 64 * 1024


class Outgoing:
    """The frames to one client.

    They go straight to the transport while it takes them, and wait here while it does not. An event
    gets its number when it leaves, so that dropped deltas leave no gap. `on_overflow` is called
    once, when more waits than a client may leave unread; `on_drained` when some of it has left.
    """

    def __init__(
        self,
        protocol: GatewayProtocol,
        on_overflow: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._on_overflow = on_overflow
        self._on_drained = on_drained
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._seq = 0
        self._closed = False
        self.waiting_bytes = 0
        protocol.on_writable = self._drain

    def response(self, frame: bytes) -> None:
        """Send a response."""
        if self._protocol.congested or self._waiting:
            self._wait(frame, is_event=False)
        else:
            self._protocol.write((frame,))

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Send an event; a droppable one is lost when the client is more than 1 MiB behind."""
        if self._protocol.congested or self._waiting:
            if not (droppable and self.waiting_bytes > MAX_DELTAS):
                self._wait(head, is_event=True)
            return
        self._seq += 1
        self._protocol.write((frames.numbered(head, self._seq),))

    def close(self) -> None:
        """Forget what waits and take nothing more."""
        self._closed = True
        self._waiting.clear()
        self.waiting_bytes = 0
        self._protocol.on_writable = lambda: None

    def _wait(self, data: bytes, *, is_event: bool) -> None:
        if self._closed:
            return
        self._waiting.append((data, is_event))
        self.waiting_bytes += len(data)
        if self.waiting_bytes > MAX_BUFFERED:
            self.close()
            self._on_overflow()

    def _drain(self) -> None:
        while self._waiting and not self._protocol.congested:
            batch: list[bytes] = []
            size = 0
            while self._waiting and size < _WRITE_BYTES:
                data, is_event = self._waiting.popleft()
                self.waiting_bytes -= len(data)
                if is_event:
                    self._seq += 1
                    data = frames.numbered(data, self._seq)
                batch.append(data)
                size += len(data)
            self._protocol.write(batch)
        self._on_drained()
