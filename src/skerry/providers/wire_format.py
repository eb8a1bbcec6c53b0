"""Parts that all wire formats share: the conversation to send, the pieces of an answer (pure).

`Items` sends each message as it is. `Turns` sends messages of one side that follow each other as
one: Anthropic wants all results of one response's tool calls in one message of the user, Gemini
too.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.infra.untrusted_json import DEEPEST, UNREADABLE, is_deep
from skerry.model.errors import ModelRequestError, ModelStreamCutError
from skerry.model.message import AssistantMessage, Block, Message, ToolCall
from skerry.ports.model import ModelInfo, ModelReply


class JoinedItems:
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
        self._sent = JoinedItems()
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
    """Messages of one side; `encoded` is their wire form, made when it is needed."""

    assistant: bool
    parts: list[bytes]
    encoded: bytes | None = None


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
            last.encoded = None

    def keep(self, count: int) -> None:
        """Forgets all messages but the first `count`."""
        if count >= len(self._places):
            return
        turn, part = self._places[count]
        del self._places[count:]
        del self._turns[turn + 1 :]
        del self._turns[turn].parts[part:]
        self._turns[turn].encoded = None

    def since(self, first: int) -> list[bytes]:
        """Returns the turns from message `first` on; a turn that it cuts begins with it."""
        if first >= len(self._places):
            return []
        start, part = self._places[first]
        sent = [self._encoded(turn) for turn in self._turns[start:] if turn.parts]
        if part:
            turn = self._turns[start]
            cut_turn = b",".join(turn.parts[part:])
            sent[:1] = [self._close(turn.assistant, cut_turn)] if cut_turn else []
        return sent

    def _encoded(self, turn: _Turn) -> bytes:
        if turn.encoded is None:
            turn.encoded = self._close(turn.assistant, b",".join(turn.parts))
        return turn.encoded


T = TypeVar("T")

RAW_ARGUMENTS: Final = "_raw_arguments"
"""Key under which a tool call's arguments stand as text when they are no JSON object. No tool has
such a parameter, so its check of the arguments tells the model what it wrote."""

TEXT_LIMIT: Final = 1024 * 1024
"""Characters of one answer, with its tool calls: more than any model means to say. Clients get the
text so far again and again, so an answer without end would cost its square."""

OWN_ID: Final = "own_call_"
"""Begins the ids of calls that came without a usable one."""

REPLY_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one answer with its names, ids and signatures."""

_LONGEST: Final = 64  # characters of an id or a name that OpenAI takes, which may be asked next
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MOST_TOKENS: Final = 1 << 40


class EventText(Struct, frozen=True):
    """Text and thinking that one event added."""

    text: str = ""
    thinking: str = ""


class AnswerLimit:
    """Counts the characters of an answer of `provider`."""

    __slots__ = ("_provider", "_size")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._size = 0

    def grow(self, characters: int) -> None:
        """Counts more.

        Raises:
            ModelRequestError: the answer is longer than `TEXT_LIMIT`.
        """
        self._size += characters
        if self._size > TEXT_LIMIT:
            raise ModelRequestError(
                f"{self._provider} sent an answer of more than {TEXT_LIMIT} characters."
            )


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, provider: str) -> T:
    """Decodes a piece of an answer.

    Raises:
        ModelStreamCutError: it is not readable.
    """
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise ModelStreamCutError(
            f"{provider} sent a piece of its answer that is not readable: {error}"
        ) from error


def parse_arguments(text: str) -> dict[str, Any]:
    """Returns a tool call's arguments; what is no JSON object stands under `RAW_ARGUMENTS`."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return {RAW_ARGUMENTS: text}


def sound(reply: ModelReply, number: int, provider: str) -> ModelReply:
    """Returns the reply with calls that every API takes back, each with an id of its own.

    Arguments that are nested too deep are left out, which the tool tells the model.

    No other response of the conversation has the same `number`.

    Raises:
        ModelRequestError: it has more than `REPLY_LIMIT` bytes.
    """
    content = [_flat(block) for block in reply.content]
    if len(msgspec.json.encode(content)) > REPLY_LIMIT:
        raise ModelRequestError(f"{provider} sent an answer of more than {REPLY_LIMIT} bytes.")
    used_ids = {""}
    for index, block in enumerate(content):
        if isinstance(block, ToolCall):
            usable = block.id not in used_ids and len(block.id) <= _LONGEST
            call_id = block.id if usable else f"{OWN_ID}{number}_{index}"
            used_ids.add(block.id)
            # No tool has another name; a call of none would make every later request fail.
            name = _NOT_IN_NAME.sub("_", block.name)[:_LONGEST] or "unnamed"
            content[index] = replace(block, id=call_id, name=name)
    return ModelReply(tuple(content), reply.stop_reason, reply.usage)


def _flat(block: Block) -> Block:
    """Returns a call without arguments that nobody could redact or sends again."""
    if isinstance(block, ToolCall) and is_deep(block.arguments):
        return replace(block, arguments={RAW_ARGUMENTS: f"(more than {DEEPEST} levels deep)"})
    return block


def count(number: int | None) -> int:
    """Returns a number that the store can add up, whatever the server says."""
    return min(max(number or 0, 0), _MOST_TOKENS)
