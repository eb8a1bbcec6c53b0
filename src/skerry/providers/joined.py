"""Items of a JSON array as one text that grows at its end."""


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
