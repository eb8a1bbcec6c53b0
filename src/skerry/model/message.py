"""Messages of a conversation, in the format of transcript lines (pi session v3).

They are msgspec structs, so that one definition serves the program, the database and the mirror.
Times are milliseconds since 1970.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from skerry.model.origin import Origin


class TextBlock(
    msgspec.Struct, frozen=True, tag="text", tag_field="type", rename="camel", omit_defaults=True
):
    """Text. A signature is of the provider, and is sent back to it unchanged."""

    text: str
    text_signature: str | None = None


class ThinkingBlock(
    msgspec.Struct,
    frozen=True,
    tag="thinking",
    tag_field="type",
    rename="camel",
    omit_defaults=True,
):
    """Reasoning of the model; `thinking_signature` is the provider's proof of it.

    A `redacted` block has no readable text: its signature is the whole reasoning, encrypted.
    """

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ImageBlock(msgspec.Struct, frozen=True, tag="image", tag_field="type", rename="camel"):
    """An image; `data` is base64 of a file of the type `mime_type`."""

    data: str
    mime_type: str


class ToolCall(
    msgspec.Struct,
    frozen=True,
    tag="toolCall",
    tag_field="type",
    rename="camel",
    omit_defaults=True,
):
    """The model's request to run a tool; `id` pairs it with its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None


Block = TextBlock | ThinkingBlock | ToolCall
"""Part of a model's message."""

Content = TextBlock | ImageBlock
"""Part of a message of a person or a tool."""

COMMAND: Final = ("skerry", "command")
"""Provider and model in the entry of the answer to a command."""
NOTICE: Final = ("skerry", "notice")
"""Provider and model in the entry of a notice to the person, which no model reads."""
COMPACTION: Final = ("skerry", "compaction")
"""Provider and model in the entry of a summary that replaces the messages before it."""

CHARS_PER_TOKEN: Final = 4
"""Characters per token in estimates, if no model has counted."""
IMAGE_CHARS: Final = 8000
"""Characters of an image in estimates, regardless of its bytes (openclaw-behaviour 7.3)."""


def joined(content: Iterable[Content]) -> str:
    """Returns the text blocks of a message of a person or a tool, joined with line feeds."""
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """Cost of one or more model calls in US dollars; 0 is free or unknown."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.total + other.total,
        )


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one or more model calls. `total_tokens` are those of the last call's context."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            other.total_tokens or self.total_tokens,
            self.cost + other.cost,
        )


class MessageContext(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Context of a platform's message that the model reads with it."""

    facts: str = ""
    """Facts of the gateway about the message, as JSON; they are trusted."""
    quoted: str = ""
    """Names, quotes and earlier messages of people; never trusted, for any sender."""


class UserMessage(
    msgspec.Struct,
    frozen=True,
    tag="user",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
):
    """Message of a person, or of the part of Skerry that started the run."""

    content: tuple[Content, ...]
    timestamp: int
    origin: Origin = Origin.STRANGER
    context: MessageContext | None = None
    """None for a message that did not arrive from a platform."""
    asked: str = ""
    """Beginning of the person's words where the gateway has put them into a text of its own; the
    model does not get it. Empty where the text is the person's."""

    @property
    def text(self) -> str:
        """Returns the text blocks, one to a line."""
        return joined(self.content)


class AssistantMessage(
    msgspec.Struct,
    frozen=True,
    tag="assistant",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
):
    """One response; `stop_reason` is `stop`, `length`, `toolUse`, `error` or `aborted`.

    Without an `origin` the model wrote it, or the gateway if no model was called.
    """

    content: tuple[Block, ...]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: str
    timestamp: int
    error_message: str | None = None
    origin: Origin | None = None

    @property
    def text(self) -> str:
        """Returns the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Returns the tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class CompactionMessage(
    AssistantMessage,
    frozen=True,
    tag="assistant",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
):
    """The entry of a compaction: its text replaces the entries before entry `first_kept`.

    A program without compactions reads it as a message that no model wrote.
    """

    first_kept: int = 0
    """Number of the first entry that is not summarised."""
    tokens_before: int = 0
    """Approximate number of tokens in the conversation before the compaction."""
    trigger: str = ""
    """`threshold`, `overflow` or `manual`."""
    asked: str = ""
    """Request of the person in the turn that was cut; empty if no turn was cut."""
    by_model: bool = True
    """True if a model wrote the summary; False for an extract."""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


class ToolResultMessage(
    msgspec.Struct,
    frozen=True,
    tag="toolResult",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
):
    """The result of one tool call, which has the id `tool_call_id`."""

    tool_call_id: str
    tool_name: str
    content: tuple[Content, ...]
    is_error: bool
    timestamp: int
    origin: Origin = Origin.TOOL
    details: dict[str, Any] | None = None
    """JSON object for clients, such as an exit code or a diff; no model reads it."""

    @property
    def text(self) -> str:
        """Returns the text blocks, one to a line."""
        return joined(self.content)


Message = UserMessage | AssistantMessage | ToolResultMessage

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_compactions = msgspec.json.Decoder(CompactionMessage)


def encode(message: Message) -> bytes:
    """Returns the message as the JSON object of a transcript line."""
    return _encoder.encode(message)


def decode(data: bytes | str) -> Message:
    """Returns the message that `encode` wrote. Raises `msgspec.ValidationError` otherwise."""
    return _decoder.decode(data)


def storable(text: str) -> str:
    """Returns the text with a replacement for each NUL, which some databases cannot store."""
    return text.replace("\0", "\ufffd")


def encode_arguments(call: ToolCall) -> str:
    """Returns the arguments of a tool call as JSON."""
    return _encoder.encode(call.arguments).decode()


def decode_compaction(data: bytes) -> CompactionMessage:
    """Returns the compaction that `encode` wrote."""
    return _compactions.decode(data)


def user(text: str, at: int) -> UserMessage:
    """Returns a user message of one text block."""
    return UserMessage((TextBlock(text),), at)


def size(message: Message) -> int:
    """Returns the approximate number of characters of the message in a prompt, with markup."""
    chars = 16
    for block in message.content:
        match block:
            case TextBlock():
                chars += len(block.text)
            case ThinkingBlock():
                chars += len(block.thinking) + len(block.thinking_signature or "")
            case ImageBlock():
                chars += IMAGE_CHARS
            case ToolCall():
                chars += len(block.name) + len(_encoder.encode(block.arguments))
    return chars


def image_chars(message: Message) -> int:
    """Returns the number of characters of the message's images as base64."""
    return sum(len(block.data) for block in message.content if isinstance(block, ImageBlock))


ABORTED_RESULT: Final = "This call was interrupted; whether it had an effect is not known."


def open_calls(messages: Iterable[Message]) -> list[ToolCall]:
    """Returns the tool calls that have no result, in order."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            calls.pop(message.tool_call_id, None)
    return list(calls.values())


def aborted_result(call: ToolCall, at: int) -> ToolResultMessage:
    """Returns the result that closes a call whose run was interrupted or aborted."""
    return ToolResultMessage(
        call.id, call.name, (TextBlock(ABORTED_RESULT),), is_error=True, timestamp=at
    )


def command_answer(text: str, at: int) -> AssistantMessage:
    """Returns the transcript entry of the answer to a command."""
    content = (TextBlock(text),)
    provider, model = COMMAND
    return AssistantMessage(content, provider, provider, model, Usage(), "stop", at)


def notice(text: str, at: int) -> AssistantMessage:
    """Returns the transcript entry of a notice from the gateway to the person."""
    provider, model = NOTICE
    content = (TextBlock(text),)
    return AssistantMessage(content, provider, provider, model, Usage(), "stop", at)


def is_command_answer(message: Message) -> bool:
    """Returns whether the message is the answer to a command."""
    return is_note(message) == "command"


def is_note(message: Message) -> str:
    """Returns `command` for the answer to one, `notice`, `compaction` for a summary, or empty.

    Such entries are in the transcript, but no model reads them.
    """
    if not isinstance(message, AssistantMessage):
        return ""
    source = message.provider, message.model
    return source[1] if source in {COMMAND, NOTICE, COMPACTION} else ""
