"""How answers are sent to chat platforms: in blocks, with pauses, with signs of writing."""

from typing import Literal

from pydantic import Field

from skerry.config.base import OpenSection


class BlockChunk(OpenSection):
    """How long the blocks of a streamed answer are."""

    min_chars: int = Field(default=800, ge=1, le=100_000)
    """Characters before which no block ends while the answer goes on."""
    max_chars: int = Field(default=1200, ge=1, le=100_000)
    """Characters that no block exceeds; never more than the platform takes."""
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"
    """Where a block ends as soon as it may."""


class BlockCoalesce(OpenSection):
    """How blocks that follow each other quickly become one message."""

    min_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Characters that a message has before a silence of the model sends it; without it as
    `blockStreamingChunk.minChars`."""
    max_chars: int | None = Field(default=None, ge=1, le=100_000)
    """Characters that a message does not exceed; without it what the platform takes."""
    idle_ms: int = Field(default=1000, ge=0, le=60_000)
    """How long a message waits for the next block; with 0 each block is a message."""


class HumanDelay(OpenSection):
    """A pause between the blocks of an answer, as a person makes who types."""

    mode: Literal["off", "natural", "custom"] = "off"
    """`natural` pauses 800 to 2500 ms, `custom` as the keys below say."""
    min_ms: int = Field(default=800, ge=0, le=60_000)
    """The shortest pause of `custom`."""
    max_ms: int = Field(default=2500, ge=0, le=60_000)
    """The longest pause of `custom`."""


class ReplyDefaults(OpenSection):
    """How the answers of every agent are sent."""

    block_streaming_default: Literal["off", "on"] = "off"
    """Whether a platform gets an answer in blocks while it is written."""
    block_streaming_break: Literal["text_end", "message_end"] = "text_end"
    """Whether blocks leave while a text grows, or when the model's whole message is there."""
    block_streaming_chunk: BlockChunk = BlockChunk.model_construct()
    block_streaming_coalesce: BlockCoalesce = BlockCoalesce.model_construct()
    human_delay: HumanDelay = HumanDelay.model_construct()
    typing_mode: Literal["never", "instant", "thinking", "message"] | None = None
    """When a platform shows that an answer is being written: at once, with the first thought, or
    with the first words. Without it `instant` in direct chats and `message` in groups."""
    typing_interval_seconds: float = Field(default=6.0, ge=1, le=60)
    """How often that is renewed."""
    verbose_default: Literal["off", "on", "full"] = "off"
    """Whether direct chats on platforms get a message for each tool call, with `full` also its
    result."""
