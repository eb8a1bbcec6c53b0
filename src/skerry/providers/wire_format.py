"""Parts that all wire formats share: encoded conversations, and checks of responses (pure).

`Items` encodes each message separately. `Turns` joins consecutive messages of one side: Anthropic
and Gemini require the results of all tool calls of a response in one message of the user.
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
    """JSON items joined by commas in one buffer.

    Sending them costs one copy. Joining a list of thousands of small objects causes a cache miss
    for each: ten times as much in a conversation of 1,000 turns.
    """

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = bytearray()

    @property
    def end(self) -> int:
        """Returns the position of the next item, for `cut` and `since`."""
        return len(self._text)

    def add(self, item: bytes) -> None:
        """Appends an item."""
        if self._text:
            self._text += b","
        self._text += item

    def cut(self, mark: int) -> None:
        """Deletes the item at position `mark` and all later ones."""
        del self._text[mark:]

    def since(self, mark: int) -> bytes:
        """Returns the item at position `mark` and all later ones, joined by commas."""
        start = mark + 1 if mark else 0  # after the comma
        return bytes(memoryview(self._text)[start:])


class Items:
    """A `WireForm` that encodes each message independently of the others.

    `encode` returns the items of a message, joined by commas; empty to leave it out. It is called
    once for each message.
    """

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._sent = JoinedItems()
        self._positions: list[int] = []  # the position of each message in `_sent`

    def add(self, message: Message) -> None:
        """Appends a message."""
        self._positions.append(self._sent.end)
        if items := self._encode(message):
            self._sent.add(items)

    def keep(self, count: int) -> None:
        """Keeps the first `count` messages and deletes the others."""
        if count < len(self._positions):
            self._sent.cut(self._positions[count])
            del self._positions[count:]

    def since(self, first: int) -> bytes:
        """Returns the items from message `first` on, joined by commas."""
        return self._sent.since(self._positions[first]) if first < len(self._positions) else b""


NO_IMAGE: Final = "(An image, which this model cannot read.)"
"""Placeholder of an image in a conversation, for a model that reads only text."""


def is_own(message: AssistantMessage, api: str, model: ModelInfo) -> bool:
    """Returns True for a message of this model over this API, which accepts its signatures."""
    return (message.api, message.provider, message.model) == (api, model.provider, model.id)


class _Turn(Struct):
    """Consecutive messages of one side; `encoded` caches their wire form."""

    assistant: bool
    parts: list[bytes]
    encoded: bytes | None = None


class Turns:
    """A `WireForm` that joins consecutive messages of one side into a turn.

    Args:
        encode: Returns the blocks of a message, joined by commas; empty to leave the message out.
            It is called once for each message.
        close: Returns the wire form of a turn, from True for the assistant's side and the joined
            blocks. It is called again for the last turn only.

    """

    def __init__(
        self, encode: Callable[[Message], bytes], close: Callable[[bool, bytes], bytes]
    ) -> None:
        self._encode = encode
        self._close = close
        self._turns: list[_Turn] = []
        self._positions: list[tuple[int, int]] = []  # of each message: index of its turn and part

    def add(self, message: Message) -> None:
        """Appends a message."""
        assistant = isinstance(message, AssistantMessage)
        blocks = self._encode(message)
        last = self._turns[-1] if self._turns else None
        if last is None or (blocks and last.assistant is not assistant):
            last = _Turn(assistant, [])
            self._turns.append(last)
        self._positions.append((len(self._turns) - 1, len(last.parts)))
        if blocks:
            last.parts.append(blocks)
            last.encoded = None

    def keep(self, count: int) -> None:
        """Keeps the first `count` messages and deletes the others."""
        if count >= len(self._positions):
            return
        turn, part = self._positions[count]
        del self._positions[count:]
        del self._turns[turn + 1 :]
        del self._turns[turn].parts[part:]
        self._turns[turn].encoded = None

    def since(self, first: int) -> list[bytes]:
        """Returns the turns from message `first` on; its turn contains no earlier message."""
        if first >= len(self._positions):
            return []
        start, part = self._positions[first]
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
"""Key for the text of arguments that are no JSON object. No tool has such a parameter, so the check
of the arguments returns the text to the model."""

TEXT_LIMIT: Final = 1024 * 1024
"""Limit of one answer with its tool calls, in characters. Clients get the whole text so far
repeatedly, so an endless answer would have a quadratic cost."""

OWN_ID: Final = "own_call_"
"""Prefix of generated ids, for calls without a usable id."""

REPLY_LIMIT: Final = 4 * 1024 * 1024
"""Limit of one answer with names, ids and signatures, in bytes of JSON."""

_MAX_ID_CHARS: Final = 64  # limit of ids and names of OpenAI, which may get the conversation later
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_TOKENS: Final = 1 << 40


class EventText(Struct, frozen=True):
    """Text and thinking that one event added."""

    text: str = ""
    thinking: str = ""


class AnswerLimit:
    """Limits the characters of an answer; `provider` is its name in the error."""

    __slots__ = ("_provider", "_size")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._size = 0

    def grow(self, characters: int) -> None:
        """Adds `characters` to the count.

        Raises:
            ModelRequestError: the answer is longer than `TEXT_LIMIT`.
        """
        self._size += characters
        if self._size > TEXT_LIMIT:
            raise ModelRequestError(
                f"{self._provider} sent an answer of more than {TEXT_LIMIT} characters."
            )


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, provider: str) -> T:
    """Decodes the JSON of an event.

    Raises:
        ModelStreamCutError: `data` is not valid JSON of the decoder's type.
    """
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise ModelStreamCutError(
            f"{provider} sent an event that cannot be decoded: {error}"
        ) from error


def parse_arguments(text: str) -> dict[str, Any]:
    """Returns the arguments of a tool call; text that is no JSON object is in `RAW_ARGUMENTS`."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return {RAW_ARGUMENTS: text}


def sound(reply: ModelReply, number: int, provider: str) -> ModelReply:
    """Returns the reply with tool calls that every API accepts later, each with a unique id.

    Arguments that are nested too deep are replaced by a note. `number` must differ between the
    responses of a conversation.

    Raises:
        ModelRequestError: the reply has more than `REPLY_LIMIT` bytes.
    """
    content = [_flat(block) for block in reply.content]
    if len(msgspec.json.encode(content)) > REPLY_LIMIT:
        raise ModelRequestError(f"{provider} sent an answer of more than {REPLY_LIMIT} bytes.")
    used_ids = {""}
    for index, block in enumerate(content):
        if isinstance(block, ToolCall):
            usable = block.id not in used_ids and len(block.id) <= _MAX_ID_CHARS
            call_id = block.id if usable else f"{OWN_ID}{number}_{index}"
            used_ids.add(block.id)
            # Every tool has such a name; a call with an invalid one would fail all later requests.
            name = _NOT_IN_NAME.sub("_", block.name)[:_MAX_ID_CHARS] or "unnamed"
            content[index] = replace(block, id=call_id, name=name)
    return ModelReply(tuple(content), reply.stop_reason, reply.usage)


def _flat(block: Block) -> Block:
    """Returns the block; arguments that are nested too deep for redaction are replaced."""
    if isinstance(block, ToolCall) and is_deep(block.arguments):
        return replace(block, arguments={RAW_ARGUMENTS: f"(more than {DEEPEST} levels deep)"})
    return block


def count(number: int | None) -> int:
    """Returns the number of tokens, limited to the range that the store can sum."""
    return min(max(number or 0, 0), _MAX_TOKENS)
