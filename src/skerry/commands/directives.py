"""Directives: commands within a message that set how it is answered, such as `/think high` (pure).

One begins the text or stands behind white space, and counts only with a level that it knows: else
it is a word of the person, as it is in code, in a quotation and in a path. Taking directives out
takes nothing else. Source: openclaw-behaviour 4.9.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from skerry.model.queue import CHOICES
from skerry.model.thinking import ThinkingLevel, thinking_level

IsModel = Callable[[str], bool]

MAX_TEXT: Final = 16_384
"""Characters of a message that is looked at: a longer one was pasted, not typed."""
NAMES: Final = ("think", "verbose", "reasoning", "status", "model", "queue")
"""Names in the order in which the directives are done."""
LEVELS: Final = {
    "think": tuple(ThinkingLevel),
    "verbose": ("off", "on", "full"),
    "reasoning": ("off", "on", "stream"),
    "queue": CHOICES,
}
"""Values of each directive; `model` takes the name of a model, `status` nothing."""
ALIASES: Final = {"thinking": "think", "t": "think", "v": "verbose", "reason": "reasoning"}
_NAME: Final = re.compile(rf"(?<!\S)/({'|'.join((*NAMES, *ALIASES))})(?=[:\s]|\Z)", re.IGNORECASE)
_WORD: Final = re.compile(r"[ \t]*(:)?[ \t]*([^\s`]+)?(?!\S)")
_OPTION: Final = re.compile(r"[ \t]+(?:debounce|cap|drop):\S+")
_CODE: Final = re.compile(
    r"(?ms)^[ \t]{0,3}(?P<fence>`{3,}|~{3,})[^\n]*"
    r"(?:\n.*?(?:^[ \t]{0,3}(?P=fence)[`~]*[ \t]*$|\Z)|\Z)"
    r"|^[ \t]{0,3}>[^\n]*"
    r"|(?<!`)(?P<tick>`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)(?P=tick)(?!`)"
)


class Directive(Struct, frozen=True):
    """One directive, and where it stands."""

    name: str
    """The command's name, whatever alias was written."""
    level: str
    """Value after the name; empty with `status`, and if none was given."""
    begin: int
    end: int


def directives(text: str, is_model: IsModel) -> list[Directive]:
    """Returns the directives within a message, in the order of the text."""
    if "/" not in text or len(text) > MAX_TEXT or _NAME.search(text) is None:
        return []
    code = [one.span() for one in _CODE.finditer(text)]
    found: list[Directive] = []
    for one in _NAME.finditer(text):
        before = bisect_right(code, (one.start(), len(text)))
        if before and one.start() < code[before - 1][1]:
            continue
        directive = _read(text, one, is_model)
        if directive is not None:
            found.append(directive)
    return found


def alone(text: str) -> list[Directive]:
    """Returns the directives of a message that has nothing else; nothing where it has.

    Each may be followed by whatever single word, or by none: there is nobody else's word to take.
    """
    found: list[Directive] = []
    at = 0
    for one in _NAME.finditer(text):
        if text[at : one.start()].strip():
            return []
        word = _WORD.match(text, one.end())
        level = (word[2] if word else "") or ""
        name = _name(one)
        taken = bool(word and level and name != "status" and not level.startswith("/"))
        end = word.end() if word and taken else one.end()
        end = _behind_options(text, end) if name == "queue" else end
        level = text[one.end() : end].strip().removeprefix(":").strip()
        found.append(Directive(name, level, one.start(), end))
        at = end
    return [] if text[at:].strip() else found


def without(text: str, found: Sequence[Directive]) -> str:
    """Returns the text without its directives, and without the white space that they leave over."""
    for one in reversed(found):
        before, behind = text[: one.begin], text[one.end :]
        fresh = not before or before.endswith("\n")
        if fresh and behind.startswith("\n"):
            behind = behind[1:]  # the line was the directive's
        elif behind[:1] in {" ", "\t"}:
            behind = behind[1:]
        elif before[-1:] in {" ", "\t"} or (not behind and before.endswith("\n")):
            before = before[:-1]
        text = before + behind
    return text


def in_order(found: Sequence[Directive]) -> Iterator[Directive]:
    """Yields them in the order in which they are done; of two of a name the last counts."""
    by_name = {one.name: one for one in found}
    return (by_name[name] for name in NAMES if name in by_name)


def _read(text: str, found: re.Match[str], is_model: IsModel) -> Directive | None:
    name, begin = _name(found), found.start()
    if name == "status":
        # Elsewhere it is as likely to be a path that the person writes of.
        is_first = begin == 0 and text[found.end() : found.end() + 1] != ":"
        return Directive(name, "", begin, found.end()) if is_first else None
    word = _WORD.match(text, found.end())
    if word is None or not word[2]:
        return None
    level = word[2] if name == "model" else word[2].lower()
    if name == "model":
        return Directive(name, level, begin, word.end()) if is_model(level) else None
    if name == "think" and word[1]:
        level = _thinking(level)  # behind a colon it is no word of a sentence: `/think on this`
    if level not in LEVELS[name]:
        return None
    end = _behind_options(text, word.end()) if name == "queue" else word.end()
    options = text[word.end() : end]
    return Directive(name, f"{level}{options}", begin, end)


def _name(found: re.Match[str]) -> str:
    name = found[1].lower()
    return ALIASES.get(name, name)


def _thinking(word: str) -> str:
    try:
        return thinking_level(word)
    except ValueError:
        return word


def _behind_options(text: str, end: int) -> int:
    while option := _OPTION.match(text, end):
        end = option.end()
    return end
