"""Sending of answers to chat platforms: blocks, pauses and typing indicators."""

from typing import Literal

from msgspec import Struct
from pydantic import Field, model_validator

from skerry.config.base import OpenSection, Section


class BlockChunk(OpenSection):
    """Length of the blocks of a streamed answer."""

    min_chars: int = Field(default=800, ge=1, le=100_000)
    """Characters before which no block ends while the answer goes on."""
    max_chars: int = Field(default=1200, ge=1, le=100_000)
    """Characters that no block exceeds; never more than the platform takes."""
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"
    """Preferred end of a block once it is long enough."""


class BlockCoalesce(OpenSection):
    """Merging of blocks that follow each other quickly into one message."""

    min_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Characters that a message has before a silence of the model sends it; without it as
    `blockStreamingChunk.minChars`."""
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Characters that a message does not exceed; without it what the platform takes."""
    idle_ms: int = Field(default=1000, ge=0, le=60_000)
    """Milliseconds for which a message waits for the next block; with 0 each block is a message."""


class StreamingConfig(Section):
    """Answers that grow in one message while the model writes them."""

    mode: Literal["off", "partial", "block"] = "off"
    """`partial` sends the begin of an answer and edits its message as the text grows; `block` edits
    it at ends of lines only. On platforms that can edit messages."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, bool):
            return {"mode": "partial" if value else "off"}
        return {"mode": value} if isinstance(value, str) else value


class ChannelStreaming(Struct, frozen=True):
    """Settings of a channel for answers that are sent while they are written."""

    mode: str = "off"
    block_streaming: bool | None = None


class HumanDelay(OpenSection):
    """A pause between the blocks of an answer, as a person makes who types."""

    mode: Literal["off", "natural", "custom"] = "off"
    """`natural` pauses 800 to 2500 ms, `custom` as the keys below say."""
    min_ms: int = Field(default=800, ge=0, le=60_000)
    """The shortest pause of `custom`."""
    max_ms: int = Field(default=2500, ge=0, le=60_000)
    """The longest pause of `custom`."""


class ReplyDefaults(OpenSection):
    """Sending of answers, for every agent."""

    block_streaming_default: Literal["off", "on"] = "off"
    """Sends an answer to platforms in blocks while it is written."""
    block_streaming_break: Literal["text_end", "message_end"] = "text_end"
    """Time at which blocks are sent: while a text grows, or when the model's whole message is
    complete."""
    block_streaming_chunk: BlockChunk = BlockChunk.model_construct()
    block_streaming_coalesce: BlockCoalesce = BlockCoalesce.model_construct()
    human_delay: HumanDelay = HumanDelay.model_construct()
    typing_mode: Literal["never", "instant", "thinking", "message"] | None = None
    """Moment from which a platform shows the typing indicator: at once, with the first reasoning,
    or with the first words. When unset, `instant` in direct chats and `message` in groups."""
    typing_interval_seconds: float = Field(default=6.0, ge=1, le=60)
    """Seconds between two renewals of the typing indicator."""
    verbose_default: Literal["off", "on", "full"] = "off"
    """Sends a message for each tool call to direct chats on platforms; with `full` also its
    result."""
