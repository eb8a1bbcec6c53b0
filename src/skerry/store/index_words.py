"""Text of an entry for the full-text index (pure).

The tokenizer is SQLite's own, so that no library is loaded for writing a turn: it splits at
characters that are not letters or digits, folds case and accents, and stems English with the
original Porter rules. `skerry_recall` stems the hits of a search again. Scripts written without
spaces are split into overlapping pairs of characters first.
"""

import re
from typing import Final

from skerry.model.message import (
    COMMAND,
    COMPACTION,
    NOTICE,
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    encode_arguments,
)
from skerry.model.origin import Origin
from skerry_recall.common_words import UNSPACED

MAX_TEXT: Final = 400_000
"""Limit on the indexed characters of one entry, the size of the largest tool result."""


def indexed(message: Message, answer: Message | None = None) -> str:
    """Returns the text of the message for the index; `answer` is the entry that follows it.

    Empty for results of memory searches, which would be found before the messages that they repeat,
    and for commands, notices and summaries, which would hide the conversation itself.
    """
    return spread(plain(message)[:MAX_TEXT]) if is_indexed(message, answer) else ""


def is_indexed(message: Message, answer: Message | None = None) -> bool:
    """Returns whether the message is indexed; `answer` is the entry that follows it."""
    match message:
        case ToolResultMessage(origin=Origin.MEMORY):
            return False
        case AssistantMessage() if _source(message) in {COMMAND, NOTICE, COMPACTION}:
            return False
        case UserMessage() if may_be_command(message) and _source(answer) == COMMAND:
            return False
        case _:
            return True


def may_be_command(message: Message) -> bool:
    """Returns whether the message may be a command: only its answer decides that."""
    return isinstance(message, UserMessage) and message.text.lstrip().startswith("/")


def _source(message: Message | None) -> tuple[str, str]:
    return (message.provider, message.model) if isinstance(message, AssistantMessage) else ("", "")


def plain(message: Message) -> str:
    """Returns the text of the message, and its tool calls with their arguments."""
    parts = [message.text] if message.text else []
    if isinstance(message, AssistantMessage):
        parts += [f"{call.name} {encode_arguments(call)}" for call in message.tool_calls]
    return "\n".join(parts)


def spread(text: str) -> str:
    """Returns the text with unspaced scripts as pairs of characters, plus the last of each run.

    Folds case for such text, because the index folds some characters differently: `ß` is `ss`.
    """
    if text.isascii():
        return text
    return re.sub(f"[{UNSPACED}]+", _pairs, text.casefold())


def _pairs(run: re.Match[str]) -> str:
    chars = run[0]
    pairs = [chars[at : at + 2] for at in range(len(chars) - 1)]
    return f" {' '.join([*pairs, chars[-1]])} "
