"""Splits a stream of server-sent events, cut anywhere, into their data (pure).

Source: the event stream format of the HTML standard. Only `data` matters to model APIs; comments
and the fields `event`, `id` and `retry` are skipped.
"""

from typing import Final

EVENT_LIMIT: Final = 4 * 1024 * 1024
"""Bytes that one event may have."""

_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(ValueError):
    """An event is longer than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"an event has more than {limit} bytes")


class EventSplitter:
    """Takes the bytes of one response as they come, gives the data of each complete event."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()  # the line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._size = 0
        self._after_return = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        r"""Returns the data of the events that `chunk` completes; lines of one are joined by \n.

        Raises:
            EventTooLargeError: an unfinished event is over the limit; feed nothing more.
        """
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")  # the second half of a cut \r\n
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes] = []
        first, *lines = chunk.split(b"\n")
        self._line += first
        if lines:
            rest = lines.pop()
            self._take(bytes(self._line), events)
            for line in lines:
                self._take(line, events)
            self._line[:] = rest
        if self._size + len(self._line) > self._limit:
            raise EventTooLargeError(self._limit)
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
            self._size = 0
            return
        self._size += len(line)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
