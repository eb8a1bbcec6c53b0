"""Which words of a text are indexed, and which of a question are looked for (pure).

The index splits at what is no letter or digit, folds case and accents, and stems English. Scripts
that are written without spaces are cut into overlapping pairs of characters before.
"""

import re
from typing import Final

from skerry.model.message import (
    COMMAND,
    COMPACTION,
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    encode_arguments,
)
from skerry.model.origin import Origin

MAX_TEXT: Final = 400_000
"""Characters of one entry that are indexed: as much as the largest tool result."""
MAX_TERMS: Final = 24
"""Of one question."""

# Han, kana, Hangul, Thai, Lao, Khmer, Myanmar.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_WORD: Final = re.compile(r"[^\W_]+")
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "a about an and any are as at be but by can could did do does for from had has have he her"
        " his how i if in is it its me my of on or our please she should so tell that the their"
        " them then there these they this to us was we were what when where which who whom whose"
        " why will with would you your",
    )
)
"""English words that say nothing of what is looked for."""


def indexed(message: Message) -> str:
    """Return what of the message is indexed; nothing of what only repeats others.

    Else each finding would be found again, before what it was found in.
    """
    match message:
        case ToolResultMessage(origin=Origin.MEMORY):
            return ""
        case AssistantMessage() if (message.provider, message.model) in {COMMAND, COMPACTION}:
            return ""
        case UserMessage() if message.text.startswith("/recall"):
            return ""
    return spread(plain(message)[:MAX_TEXT])


def plain(message: Message) -> str:
    """Return what the message says, and which tools it calls with what."""
    said = [message.text] if message.text else []
    if isinstance(message, AssistantMessage):
        said += [f"{call.name} {encode_arguments(call)}" for call in message.tool_calls]
    return "\n".join(said)


def spread(text: str) -> str:
    """Return the text with unspaced scripts as pairs of characters, and each run's last alone.

    Case is folded here where the index would fold it otherwise than a question: `ß` is `ss`.
    """
    return text if text.isascii() else _UNSPACED.sub(_pairs, text.casefold())


def terms(question: str) -> list[str]:
    """Return the words to look for, each once; common ones only where there are no others."""
    found = list(dict.fromkeys(_WORD.findall(question.casefold())))
    return ([one for one in found if one not in _COMMON] or found)[:MAX_TERMS]


def expression(question: str) -> str | None:
    """Return the question as the index takes it: any of the words; None where it has none."""
    parts: list[str] = []
    for term in terms(question):
        pairs = [one for one in spread(term).split() if len(one) > 1]
        # One character alone is the begin of a pair, or the last of its run.
        lone = len(term) == 1 and _UNSPACED.fullmatch(term)
        parts += [f'"{term}"*'] if lone else [f'"{one}"' for one in pairs or [term]]
    return " OR ".join(parts) or None


def excerpt(text: str, question: str, size: int) -> str:
    """Return about `size` characters of the text, around the first of the words that it has."""
    text = " ".join(text.split())
    if len(text) <= size:
        return text
    folded = text.casefold()
    places = [place for one in terms(question) if (place := folded.find(one)) >= 0]
    begin = max(0, min(places, default=0) - size // 4)
    cut = text[begin : begin + size]
    return f"{'…' if begin else ''}{cut}{'…' if begin + size < len(text) else ''}"


def _pairs(run: re.Match[str]) -> str:
    chars = run[0]
    pairs = [chars[at : at + 2] for at in range(len(chars) - 1)]
    return f" {' '.join([*pairs, chars[-1]])} "
