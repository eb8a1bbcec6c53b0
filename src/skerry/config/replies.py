"""Sending of answers to chat platforms: blocks, pauses and typing indicators."""

from typing import Literal

from msgspec import Struct
from pydantic import Field, model_validator

from skerry.config.base import OpenSection, Section


class BlockChunk(OpenSection):
    """Length of the blocks of a streamed answer."""

    min_chars: int = Field(default=800, ge=1, le=100_000)
    """Minimum characters of a block while the answer continues."""
    max_chars: int = Field(default=1200, ge=1, le=100_000)
    """Maximum characters of a block; never more than the platform's limit."""
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"
    """Preferred end of a block that has the minimum length."""


class BlockCoalesce(OpenSection):
    """Joining of blocks in quick succession into one message."""

    min_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Minimum characters of a message that is sent when the model pauses; when unset,
    `blockStreamingChunk.minChars`."""
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Maximum characters of a message; when unset, the platform's limit."""
    idle_ms: int = Field(default=1000, ge=0, le=60_000)
    """Milliseconds for which a message waits for the next block; with 0 each block is a message."""


class StreamingConfig(Section):
    """Answers in one message that is edited while the model generates them."""

    mode: Literal["off", "partial", "block"] = "off"
    """`partial` sends the beginning of an answer and edits the message as the text grows; `block`
    edits it only at ends of lines. On platforms that can edit messages."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, bool):
            return {"mode": "partial" if value else "off"}
        return {"mode": value} if isinstance(value, str) else value


class ChannelStreaming(Struct, frozen=True):
    """Settings of a channel for answers that are sent while they are generated."""

    mode: str = "off"
    block_streaming: bool | None = None


class HumanDelay(OpenSection):
    """A pause between the blocks of an answer, like that of a typing person."""

    mode: Literal["off", "natural", "custom"] = "off"
    """`natural` pauses for 800 to 2500 ms, `custom` for `minMs` to `maxMs`."""
    min_ms: int = Field(default=800, ge=0, le=60_000)
    """The shortest pause of `custom`."""
    max_ms: int = Field(default=2500, ge=0, le=60_000)
    """The longest pause of `custom`."""


class ReplyDefaults(OpenSection):
    """Sending of answers, for every agent."""

    block_streaming_default: Literal["off", "on"] = "off"
    """Sends an answer to platforms in blocks while it is generated."""
    block_streaming_break: Literal["text_end", "message_end"] = "text_end"
    """Time at which blocks are sent: while the text grows (`text_end`), or when the model's message
    is complete (`message_end`)."""
    block_streaming_chunk: BlockChunk = BlockChunk.model_construct()
    block_streaming_coalesce: BlockCoalesce = BlockCoalesce.model_construct()
    human_delay: HumanDelay = HumanDelay.model_construct()
    typing_mode: Literal["never", "instant", "thinking", "message"] | None = None
    """Begin of the typing indicator: at once (`instant`), with the first reasoning (`thinking`), or
    with the first text (`message`). When unset, `instant` in direct chats and `message` in
    groups."""
    typing_interval_seconds: float = Field(default=6.0, ge=1, le=60)
    """Seconds between two renewals of the typing indicator."""
    verbose_default: Literal["off", "on", "full"] = "off"
    """Sends a message about each tool call to direct chats on platforms; with `full` also about its
    result."""
