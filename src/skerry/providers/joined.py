"""Items of a JSON array as one text that grows at its end, and conversations made of them."""

from collections.abc import Callable

from skerry.model.message import Message


class Joined:
    """Keeps the items joined by commas.

    To send them costs one copy. A list of thousands of small objects, each somewhere else in
    memory, costs a wait for the memory each: ten times as much in a conversation of 1,000 turns.
    """

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = bytearray()

    @property
    def end(self) -> int:
        """Return the mark of the next item, for `cut` and `since`."""
        return len(self._text)

    def add(self, item: bytes) -> None:
        """Put an item at the end."""
        if self._text:
            self._text += b","
        self._text += item

    def cut(self, mark: int) -> None:
        """Forget the item that was added at `mark`, and all behind it."""
        del self._text[mark:]

    def since(self, mark: int) -> bytes:
        """Return the item that was added at `mark`, and all behind it."""
        start = mark + 1 if mark else 0  # behind the comma
        return bytes(memoryview(self._text)[start:])


class Items:
    """A `WireForm` where no message depends on another.

    `encode` gives the items of one, joined by commas; empty for one that is left out. It is called
    once a message.
    """

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._sent = Joined()
        self._places: list[int] = []  # the mark of each message

    def add(self, message: Message) -> None:
        """Take the next message."""
        self._places.append(self._sent.end)
        if items := self._encode(message):
            self._sent.add(items)

    def keep(self, count: int) -> None:
        """Forget all messages but the first `count`."""
        if count < len(self._places):
            self._sent.cut(self._places[count])
            del self._places[count:]

    def since(self, first: int) -> bytes:
        """Return the items from message `first` on, joined by commas."""
        return self._sent.since(self._places[first]) if first < len(self._places) else b""
