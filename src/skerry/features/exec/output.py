"""Output of a command: its beginning and its end within limits, as plain text."""

import re
from codecs import getincrementaldecoder
from collections import deque
from typing import Final

KEPT_CHARS: Final = 200_000
"""Characters of a command's output that are kept."""
HEAD_CHARS: Final = 40_000
"""Characters of its beginning among them; the others are those of its end."""
NEW_CHARS: Final = 30_000
"""Characters that are kept of what no `poll` has returned yet: the newest."""

_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # control sequences, such as colours
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|[ -/]*[0-~])?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def plain(text: str) -> str:
    """Returns the text without what would move a cursor, colour a terminal or hide text in it."""
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
                lost = len(first)
            else:
                self._parts[0] = first[excess:]
                lost = excess
            self.length -= lost
            self.dropped += lost

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = deque(("".join(self._parts),))
        return self._parts[0] if self._parts else ""

    def clear(self) -> None:
        self._parts.clear()
        self.length = self.dropped = 0


class Output:
    """Collects the bytes that a command prints, and returns them as text."""

    def __init__(self) -> None:
        self.total = 0
        """Characters so far."""
        self.size = 0
        """Bytes so far."""
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = _Tail(KEPT_CHARS - HEAD_CHARS)
        self._new = _Tail(NEW_CHARS)

    def add(self, data: bytes) -> None:
        """Adds what the command printed; nothing ends a character that is incomplete."""
        self.size += len(data)
        self._add(self._decoder.decode(data))

    def end(self) -> None:
        """Adds what is left of an incomplete character: the output has ended."""
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
        """Returns how many characters between the beginning and the end are not kept."""
        return self._tail.dropped

    @property
    def text(self) -> str:
        """Returns all that is kept, with a note where characters are missing."""
        return plain(_joined(self._head, self.dropped, self._tail.text))

    def brief(self, limit: int) -> str:
        """Returns the output, or of a longer one a fifth of `limit` of its beginning and its end.

        The note between the two is beyond the limit.
        """
        if self.total <= limit:
            return self.text
        head = self._head[: limit // 5]
        tail_size = limit - len(head)
        tail = self._tail.text[-tail_size:]
        if len(tail) < tail_size:  # the end begins in what is kept of the beginning
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
