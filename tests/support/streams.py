"""Recorded streams of model APIs and the replies that they are."""

from pathlib import Path
from typing import Final

from skerry.features.anthropic_messages.provider import AnthropicBuilder
from skerry.features.google_generative_ai.provider import GoogleBuilder
from skerry.features.openai_completions.provider import CompatBuilder
from skerry.features.openai_responses.provider import ResponsesBuilder
from skerry.model.errors import ModelError
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage
from skerry.ports.model import ModelReply
from skerry.providers.streaming_call import EventSplitter, ReplyBuilder

STREAMS: Final = Path(__file__).parents[1] / "data" / "streams"

_GREETING = 'Hello, Größe \N{SNOWMAN} "quoted"'
_REASONING = (
    '{"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"**Planning**"},'
    '{"type":"summary_text","text":"I read both."}],"encrypted_content":"gAAAAABn-encrypted"}'
)
_A: Final = {"path": "a.txt"}
_B: Final = {"path": "b.txt", "lines": 5}

_CALLS: Final = (ToolCall("call_A1", "read", _A), ToolCall("call_B2", "read", _B))

REPLIES: Final = {
    "openai-completions/text": ModelReply(
        (TextBlock(_GREETING),), "stop", Usage(16, 6, cache_read=4, total_tokens=26)
    ),
    "openai-completions/tools": ModelReply(
        (TextBlock("I look at both."), *_CALLS),
        "toolUse",
        Usage(476, 90, cache_read=1024, total_tokens=1590),
    ),
    "openai-completions/length": ModelReply(
        (TextBlock("Once upon"),), "length", Usage(9, 16, total_tokens=25)
    ),
    "anthropic-messages/text": ModelReply(
        (TextBlock(_GREETING),), "stop", Usage(16, 6, cache_read=4, total_tokens=26)
    ),
    "anthropic-messages/thinking-and-tools": ModelReply(
        (
            ThinkingBlock("I read both.", "EqQBCgIYAhIM"),
            ThinkingBlock("", "EmwKAhgBEgy3va3p", redacted=True),
            TextBlock("I look at both."),
            ToolCall("toolu_A1", "read", _A),
            ToolCall("toolu_B2", "read", _B),
        ),
        "toolUse",
        Usage(276, 90, cache_read=1024, cache_write=200, total_tokens=1590),
    ),
    "anthropic-messages/length": ModelReply(
        (TextBlock("Once upon"),), "length", Usage(9, 16, total_tokens=25)
    ),
    "openai-responses/text": ModelReply(
        (TextBlock(_GREETING),), "stop", Usage(16, 6, cache_read=4, total_tokens=26)
    ),
    "openai-responses/thinking-and-tools": ModelReply(
        (
            ThinkingBlock("**Planning**\n\nI read both.", _REASONING),
            TextBlock("I look at both.", "commentary"),
            *_CALLS,
        ),
        "toolUse",
        Usage(276, 90, cache_read=1024, cache_write=200, total_tokens=1590),
    ),
    "openai-responses/length": ModelReply(
        (TextBlock("Once upon"),), "length", Usage(9, 16, total_tokens=25)
    ),
    "openai-responses/refusal": ModelReply(
        (TextBlock("I cannot help."),), "stop", Usage(9, 5, total_tokens=14)
    ),
    "google-generative-ai/text": ModelReply(
        (TextBlock(_GREETING),), "stop", Usage(16, 6, cache_read=4, total_tokens=26)
    ),
    "google-generative-ai/thinking-and-tools": ModelReply(
        (
            ThinkingBlock("**Planning**\nI read both."),
            TextBlock("I look at both."),
            ToolCall("", "read", _A, "EsoBCscBAdHtim8="),
            ToolCall("", "read", _B),
        ),
        "toolUse",
        Usage(476, 90, cache_read=1024, total_tokens=1590),
    ),
    "google-generative-ai/length": ModelReply(
        (TextBlock("Once upon"),), "length", Usage(9, 16, total_tokens=25)
    ),
    "google-generative-ai/signed-text": ModelReply(
        (TextBlock("It is 42.", "CqQBAdHtim8="),), "stop", Usage(30, 104, total_tokens=134)
    ),
    "google-generative-ai/ids": ModelReply(
        (ToolCall("fc-77", "read", {}, "EsoB"), ToolCall("fc-78", "read", {"path": "z"})),
        "toolUse",
        Usage(3, 4, total_tokens=7),
    ),
}
"""File of a stream, without its ending, to the reply that it is."""


def recorded(name: str) -> bytes:
    """Returns the bytes of a recorded stream."""
    return (STREAMS / f"{name}.sse").read_bytes()


def builder(name: str) -> ReplyBuilder:
    """Returns a new builder for the API of a stream."""
    match name.partition("/")[0]:
        case "openai-completions":
            return CompatBuilder("P")
        case "openai-responses":
            return ResponsesBuilder("P")
        case "anthropic-messages":
            return AnthropicBuilder("P")
        case _:
            return GoogleBuilder("P")


def read(name: str, pieces: list[bytes]) -> tuple[ModelReply | ModelError, str, str]:
    """Returns the reply or failure, the text and the thinking of a stream that comes in pieces."""
    made = builder(name)
    events = EventSplitter()
    texts: list[str] = []
    thoughts: list[str] = []
    try:
        for piece in pieces:
            for data in events.feed(piece):
                if (event_text := made.take(data)) is not None:
                    texts.append(event_text.text)
                    thoughts.append(event_text.thinking)
        return made.reply(), "".join(texts), "".join(thoughts)
    except ModelError as error:
        return error, "".join(texts), "".join(thoughts)
