"""Forms of a conversation on the wire, which grow with it (pure).

`Items` sends each message as it is. `Turns` sends messages of one side that follow each other as
one: Anthropic wants all results of one response's tool calls in one message of the user, Gemini
too.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from skerry.model.message import AssistantMessage, Message
from skerry.ports.model import ModelInfo


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
        """Returns the mark of the next item, for `cut` and `since`."""
        return len(self._text)

    def add(self, item: bytes) -> None:
        """Puts an item at the end."""
        if self._text:
            self._text += b","
        self._text += item

    def cut(self, mark: int) -> None:
        """Forgets the item that was added at `mark`, and all behind it."""
        del self._text[mark:]

    def since(self, mark: int) -> bytes:
        """Returns the item that was added at `mark`, and all behind it."""
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
        """Takes the next message."""
        self._places.append(self._sent.end)
        if items := self._encode(message):
            self._sent.add(items)

    def keep(self, count: int) -> None:
        """Forgets all messages but the first `count`."""
        if count < len(self._places):
            self._sent.cut(self._places[count])
            del self._places[count:]

    def since(self, first: int) -> bytes:
        """Returns the items from message `first` on, joined by commas."""
        return self._sent.since(self._places[first]) if first < len(self._places) else b""


NO_IMAGE: Final = "(An image, which this model cannot read.)"
"""Placeholder of an image in a conversation, for a model that reads only text."""


def is_own(message: AssistantMessage, api: str, model: ModelInfo) -> bool:
    """Returns whether the model said it, over this API: no other reads its signatures."""
    return (message.api, message.provider, message.model) == (api, model.provider, model.id)


class _Turn(Struct):
    """Messages of one side; `whole` is their wire form, made when it is needed."""

    assistant: bool
    parts: list[bytes]
    whole: bytes | None = None


class Turns:
    """A `WireForm`: `encode` gives a message's blocks, joined by commas, and `close` a whole turn.

    `encode` is called once a message; a message whose blocks are empty is left out. `close` takes
    whether the turn is the assistant's, and its blocks; it is called again only for the last turn.
    """

    def __init__(
        self, encode: Callable[[Message], bytes], close: Callable[[bool, bytes], bytes]
    ) -> None:
        self._encode = encode
        self._close = close
        self._turns: list[_Turn] = []
        self._places: list[tuple[int, int]] = []  # where each message begins: turn, part of it

    def add(self, message: Message) -> None:
        """Takes the next message."""
        assistant = isinstance(message, AssistantMessage)
        blocks = self._encode(message)
        last = self._turns[-1] if self._turns else None
        if last is None or (blocks and last.assistant is not assistant):
            last = _Turn(assistant, [])
            self._turns.append(last)
        self._places.append((len(self._turns) - 1, len(last.parts)))
        if blocks:
            last.parts.append(blocks)
            last.whole = None

    def keep(self, count: int) -> None:
        """Forgets all messages but the first `count`."""
        if count >= len(self._places):
            return
        turn, part = self._places[count]
        del self._places[count:]
        del self._turns[turn + 1 :]
        del self._turns[turn].parts[part:]
        self._turns[turn].whole = None

    def since(self, first: int) -> list[bytes]:
        """Returns the turns from message `first` on; a turn that it cuts begins with it."""
        if first >= len(self._places):
            return []
        start, part = self._places[first]
        sent = [self._whole(turn) for turn in self._turns[start:] if turn.parts]
        if part:
            turn = self._turns[start]
            rest = b",".join(turn.parts[part:])
            sent[:1] = [self._close(turn.assistant, rest)] if rest else []
        return sent

    def _whole(self, turn: _Turn) -> bytes:
        if turn.whole is None:
            turn.whole = self._close(turn.assistant, b",".join(turn.parts))
        return turn.whole
