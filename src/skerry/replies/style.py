"""Style of the answers of one run, from its session and the configuration (pure)."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.replies import ChannelStreaming, HumanDelay, ReplyDefaults
from skerry.model.message import ToolCall, Usage
from skerry.model.outbound import TextUnit
from skerry.model.session import SessionSettings
from skerry.replies.chunking import Chunking
from skerry.replies.split_points import Break

NATURAL: Final = (0.8, 2.5)
"""Seconds of a natural pause: openclaw-behaviour 6.5."""
TOOL_CHARS: Final = 2000
"""Limit on the characters of a tool result in a message."""
_ARGUMENT_CHARS: Final = 120
_UNLIMITED_CHARS: Final = 1_000_000_000
"""More characters than any answer has."""
_VARIABLE: Final = re.compile(r"\{([a-zA-Z.]+)\}")


class Detail(StrEnum):
    """Level of detail that is shown."""

    OFF = "off"
    ON = "on"
    FULL = "full"
    STREAM = "stream"
    TOKENS = "tokens"


class TypingMode(StrEnum):
    """Moment from which a platform shows the typing indicator."""

    NEVER = "never"
    INSTANT = "instant"
    THINKING = "thinking"
    MESSAGE = "message"


class Style(Struct, frozen=True):
    """Style of one run's answers on a platform."""

    chunking: Chunking
    streams: bool
    """True when the text is sent in blocks during the run."""
    whole: bool
    """True when blocks wait for the end of the model's message."""
    joined_from: int
    joined_to: int
    idle: float
    """`joined_from`, `joined_to` and `idle`: minimum characters, maximum units and idle seconds of
    joined blocks."""
    pause: tuple[float, float] | None
    reasoning: Detail
    verbose: Detail
    usage: Detail
    typing: TypingMode
    interval: float
    preview: str = "off"
    """Mode of an answer that grows in one edited message: `off`, `partial` or `block`."""


def style(
    defaults: ReplyDefaults,
    settings: SessionSettings,
    limit: int,
    unit: TextUnit,
    *,
    direct: bool,
) -> Style:
    """Returns the style of a run's answers on a platform with messages of up to `limit` units."""
    chunk, join = defaults.block_streaming_chunk, defaults.block_streaming_coalesce
    maximum = min(chunk.max_chars, limit)
    minimum = min(chunk.min_chars, maximum)
    verbose = Detail(settings.verbose_level or defaults.verbose_default)
    usual = TypingMode.INSTANT if direct else TypingMode.MESSAGE
    return Style(
        chunking=Chunking(minimum, maximum, Break(chunk.break_preference), unit),
        streams=defaults.block_streaming_default == "on",
        whole=defaults.block_streaming_break == "message_end",
        joined_from=min(join.min_chars or minimum, limit),
        joined_to=min(join.max_chars or limit, limit),
        idle=join.idle_ms / 1000,
        pause=_pause(defaults.human_delay),
        reasoning=Detail(settings.reasoning_level or "off"),
        verbose=verbose if direct else Detail.OFF,  # openclaw-behaviour 4.10
        usage=Detail(settings.response_usage or "off"),
        typing=TypingMode(defaults.typing_mode) if defaults.typing_mode else usual,
        interval=defaults.typing_interval_seconds,
    )


def on_channel(usual: Style, channel: ChannelStreaming, *, edits: bool) -> Style:
    """Returns the style with the settings of a channel applied.

    `edits` is true if the platform can edit messages. An answer that grows is one block for each
    message of the model, which is split when it is sent.
    """
    if channel.block_streaming is not None:
        usual = replace(usual, streams=channel.block_streaming)
    if not edits or channel.mode == "off":
        return usual
    uncut = Chunking(
        _UNLIMITED_CHARS, _UNLIMITED_CHARS, usual.chunking.preference, usual.chunking.unit
    )
    return replace(
        usual, streams=True, whole=True, chunking=uncut, idle=0.0, pause=None, preview=channel.mode
    )


def prefix(template: str, variables: Mapping[str, str]) -> str:
    """Returns the prefix of an answer; unknown variables are not replaced."""
    values = {name.lower(): value for name, value in variables.items()}

    def value(match: re.Match[str]) -> str:
        return values.get(match[1].lower(), match[0])

    return _VARIABLE.sub(value, template)


def footer(level: Detail, usage: Usage, key: str) -> str:
    """Returns the line with the usage of an answer; empty if it is off or unknown."""
    if level is Detail.OFF or not usage.total_tokens:
        return ""
    text = f"Usage: {_count(usage.input)} in / {_count(usage.output)} out"
    if level is not Detail.FULL:
        return text
    if usage.cache_read or usage.cache_write:
        text += f" · cache {_count(usage.cache_read)} read / {_count(usage.cache_write)} written"
    if usage.cost.total:
        text += f" · ${usage.cost.total:.4f}"
    return f"{text} · session {key}"


def reasoning(thoughts: str) -> str:
    """Returns the text of a separate message with the thoughts."""
    lines = (f"_{line.strip()}_" if line.strip() else "" for line in thoughts.strip().split("\n"))
    return "Reasoning:\n" + "\n".join(lines)


def tool_begun(call: ToolCall) -> str:
    """Returns the message about a tool call: its name and its first text argument."""
    texts = (argument for argument in call.arguments.values() if isinstance(argument, str))
    about = " ".join(next(texts, "").split())[:_ARGUMENT_CHARS]
    return f"🛠️ {call.name}: {about}" if about else f"🛠️ {call.name}"


def tool_ended(call: ToolCall, text: str, *, failed: bool) -> str:
    """Returns the message with the result of a tool call."""
    sign = "⚠️" if failed else "✅"
    excerpt = text[:TOOL_CHARS] + ("…" if len(text) > TOOL_CHARS else "")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", excerpt)), 3)
    return f"{sign} {call.name}\n{fence}\n{excerpt.rstrip()}\n{fence}"


def _pause(delay: HumanDelay) -> tuple[float, float] | None:
    match delay.mode:
        case "natural":
            return NATURAL
        case "custom":
            return delay.min_ms / 1000, max(delay.max_ms, delay.min_ms) / 1000
    return None


def _count(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)  # noqa: PLR2004 - a thousand
