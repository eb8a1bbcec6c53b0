"""Messages of a conversation, in the shape of the transcript's lines (pi session v3).

They are msgspec structs because they are what a transcript line holds: one definition serves the
program, the database and the mirror. Times are milliseconds since 1970.
"""

from typing import Any

import msgspec


class TextBlock(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """Text."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag="toolCall", tag_field="type"):
    """The model's request to run a tool; `id` pairs it with its result."""

    id: str
    name: str
    arguments: dict[str, Any]


Block = TextBlock | ToolCall


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one or more model calls. `total_tokens` is what the context held at the last."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            other.total_tokens or self.total_tokens,
        )


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role", rename="camel"):
    """What a person, or whoever started the run, said."""

    content: tuple[TextBlock, ...]
    timestamp: int


class AssistantMessage(
    msgspec.Struct,
    frozen=True,
    tag="assistant",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
):
    """One response; `stop_reason` is `stop`, `length`, `toolUse`, `error` or `aborted`."""

    content: tuple[Block, ...]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: str
    timestamp: int
    error_message: str | None = None

    @property
    def text(self) -> str:
        """Return the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class ToolResultMessage(
    msgspec.Struct, frozen=True, tag="toolResult", tag_field="role", rename="camel"
):
    """The answer to one tool call, always paired with it by `tool_call_id`."""

    tool_call_id: str
    tool_name: str
    content: tuple[TextBlock, ...]
    is_error: bool
    timestamp: int


Message = UserMessage | AssistantMessage | ToolResultMessage

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the message as the JSON object of a transcript line."""
    return _encoder.encode(message)


def decode(data: bytes | str) -> Message:
    """Return the message that `encode` wrote. Raises `msgspec.ValidationError` on anything else."""
    return _decoder.decode(data)


def user(text: str, at: int) -> UserMessage:
    """Return a user message of one text block."""
    return UserMessage((TextBlock(text),), at)


def size(message: Message) -> int:
    """Return about how many characters the message costs a model, markup included."""
    chars = 16
    for block in message.content:
        if isinstance(block, TextBlock):
            chars += len(block.text)
        else:
            chars += len(block.name) + len(_encoder.encode(block.arguments))
    return chars
