"""Words of an entry that are indexed (pure).

The index splits at what is no letter or digit, folds case and accents, and stems English by
Porter's older rules: it is SQLite's own, so that no library has to be there for what is written
with every turn. `skerry_recall` stems what a search found anew. Scripts that are written without
spaces are cut into overlapping pairs of characters before.
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
"""Characters of one entry that are indexed: as much as the largest tool result."""


def indexed(message: Message, answer: Message | None = None) -> str:
    """Returns the indexed text of the message, by the entry that follows it, its `answer`.

    Nothing of what only repeats others: each finding would be found again, before what it was found
    in. Nothing of what was said to the gateway and by it: it would bury what was talked about.
    """
    return spread(plain(message)[:MAX_TEXT]) if is_indexed(message, answer) else ""


def is_indexed(message: Message, answer: Message | None = None) -> bool:
    """Returns whether the words of the message are indexed, by the entry that follows it."""
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
    """Returns whether only its answer tells that the message was no word to a model."""
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
    """Returns the text with unspaced scripts as pairs of characters, and each run's last alone.

    Case is folded here where the index would fold it otherwise than a question: `ß` is `ss`.
    """
    if text.isascii():
        return text
    return re.sub(f"[{UNSPACED}]+", _pairs, text.casefold())


def _pairs(run: re.Match[str]) -> str:
    chars = run[0]
    pairs = [chars[at : at + 2] for at in range(len(chars) - 1)]
    return f" {' '.join([*pairs, chars[-1]])} "
