"""Output of a command as plain text: its beginning and its end, within limits."""

import re
from codecs import getincrementaldecoder
from collections import deque
from typing import Final

KEPT_CHARS: Final = 200_000
"""Maximum number of kept characters of a command's output."""
HEAD_CHARS: Final = 40_000
"""Kept characters of the beginning; the remaining ones are of the end."""
NEW_CHARS: Final = 30_000
"""Maximum number of kept characters that no `poll` has returned yet; the newest are kept."""

_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # control sequences, such as colours
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|[ -/]*[0-~])?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def plain(text: str) -> str:
    """Returns the text without control sequences that move a cursor, set colours or hide text."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return _CONTROLS.sub("", text)


class _Tail:
    """The newest characters of a text, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self.length = 0
        self.dropped = 0
        self._limit = limit
        self._parts: deque[str] = deque()

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)
        while self.length > self._limit:
            excess = self.length - self._limit
            first = self._parts[0]
            if len(first) <= excess:
                self._parts.popleft()
                removed = len(first)
            else:
                self._parts[0] = first[excess:]
                removed = excess
            self.length -= removed
            self.dropped += removed

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = deque(("".join(self._parts),))
        return self._parts[0] if self._parts else ""

    def clear(self) -> None:
        self._parts.clear()
        self.length = self.dropped = 0


class Output:
    """Collects the output of a command, and returns it as text."""

    def __init__(self) -> None:
        self.total = 0
        """Number of characters so far."""
        self.size = 0
        """Number of bytes so far."""
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = _Tail(KEPT_CHARS - HEAD_CHARS)
        self._new = _Tail(NEW_CHARS)

    def add(self, data: bytes) -> None:
        """Adds bytes of output; an incomplete character waits for the next bytes."""
        self.size += len(data)
        self._add(self._decoder.decode(data))

    def end(self) -> None:
        """Adds an incomplete character at the end of the output."""
        self._add(self._decoder.decode(b"", final=True))

    def _add(self, text: str) -> None:
        if not text:
            return
        self.total += len(text)
        self._new.add(text)
        room = HEAD_CHARS - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail.add(text)

    @property
    def dropped(self) -> int:
        """Returns the number of dropped characters between the beginning and the end."""
        return self._tail.dropped

    @property
    def text(self) -> str:
        """Returns the kept output, with a note in place of dropped characters."""
        return plain(_joined(self._head, self.dropped, self._tail.text))

    def brief(self, limit: int) -> str:
        """Returns the output; of a longer one `limit` characters, a fifth of them its beginning.

        The limit does not include the note between the two.
        """
        if self.total <= limit:
            return self.text
        head = self._head[: limit // 5]
        tail_size = limit - len(head)
        tail = self._tail.text[-tail_size:]
        if len(tail) < tail_size:  # the end overlaps the kept beginning
            tail = (self._head + tail)[-tail_size:]
        return plain(_joined(head, self.total - len(head) - len(tail), tail))

    def last(self, limit: int) -> str:
        """Returns the last characters."""
        tail = self._tail.text[-limit:]
        if len(tail) < limit:
            tail = (self._head + tail)[-limit:]
        return plain(tail)

    def take_new(self) -> str:
        """Returns the newest `NEW_CHARS` characters printed since the last call."""
        text, dropped = self._new.text, self._new.dropped
        self._new.clear()
        return plain(_joined("", dropped, text))


def _joined(head: str, missing: int, tail: str) -> str:
    if not missing:
        return head + tail
    return f"{head}\n[... {missing} characters left out ...]\n{tail}".lstrip("\n")
