"""Directives: commands within a message that set how it is answered, as `/think high` (pure).

A directive is at the start of the text or after white space, and needs one of its levels; without
it, and in code, quotations and paths, the word is ordinary text. The rest of the text is kept.
Source: openclaw-behaviour 4.9.
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
"""Limit on a message that is searched, in characters: a longer one was pasted, not typed."""
NAMES: Final = ("think", "verbose", "reasoning", "status", "model", "queue")
"""Names in the order in which the directives are applied."""
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
    """One directive and its position in the text."""

    name: str
    """The command's name; an alias is replaced."""
    level: str
    """Value after the name; empty with `status` and if none was given."""
    begin: int
    end: int


def directives(text: str, is_model: IsModel) -> list[Directive]:
    """Returns the directives within a message, in the order of the text."""
    if "/" not in text or len(text) > MAX_TEXT or _NAME.search(text) is None:
        return []
    code = [match.span() for match in _CODE.finditer(text)]
    matches: list[Directive] = []
    for match in _NAME.finditer(text):
        before = bisect_right(code, (match.start(), len(text)))
        if before and match.start() < code[before - 1][1]:
            continue
        directive = _read(text, match, is_model)
        if directive is not None:
            matches.append(directive)
    return matches


def sole_directives(text: str) -> list[Directive]:
    """Returns the directives of a message without other text; an empty list if there is some.

    Each directive may be followed by any single word, which is its level, or by none.
    """
    matches: list[Directive] = []
    at = 0
    for match in _NAME.finditer(text):
        if text[at : match.start()].strip():
            return []
        word = _WORD.match(text, match.end())
        level = (word[2] if word else "") or ""
        name = _name(match)
        has_level = bool(word and level and name != "status" and not level.startswith("/"))
        end = word.end() if word and has_level else match.end()
        end = _behind_options(text, end) if name == "queue" else end
        level = text[match.end() : end].strip().removeprefix(":").strip()
        matches.append(Directive(name, level, match.start(), end))
        at = end
    return [] if text[at:].strip() else matches


def remove_directives(text: str, parsed: Sequence[Directive]) -> str:
    """Returns the text without its directives and the white space around them."""
    for directive in reversed(parsed):
        before, behind = text[: directive.begin], text[directive.end :]
        fresh = not before or before.endswith("\n")
        if fresh and behind.startswith("\n"):
            behind = behind[1:]  # the line was the directive's
        elif behind[:1] in {" ", "\t"}:
            behind = behind[1:]
        elif before[-1:] in {" ", "\t"} or (not behind and before.endswith("\n")):
            before = before[:-1]
        text = before + behind
    return text


def in_order(parsed: Sequence[Directive]) -> Iterator[Directive]:
    """Yields the directives in the order of execution; of a repeated directive, only the last."""
    by_name = {directive.name: directive for directive in parsed}
    return (by_name[name] for name in NAMES if name in by_name)


def _read(text: str, match: re.Match[str], is_model: IsModel) -> Directive | None:
    name, begin = _name(match), match.start()
    if name == "status":
        # After other text, `/status` is as likely to be a path.
        is_first = begin == 0 and text[match.end() : match.end() + 1] != ":"
        return Directive(name, "", begin, match.end()) if is_first else None
    word = _WORD.match(text, match.end())
    if word is None or not word[2]:
        return None
    level = word[2] if name == "model" else word[2].lower()
    if name == "model":
        return Directive(name, level, begin, word.end()) if is_model(level) else None
    if name == "think" and word[1]:
        level = _thinking(level)  # after a colon it cannot be a sentence such as `/think on this`
    if level not in LEVELS[name]:
        return None
    end = _behind_options(text, word.end()) if name == "queue" else word.end()
    options = text[word.end() : end]
    return Directive(name, f"{level}{options}", begin, end)


def _name(match: re.Match[str]) -> str:
    name = match[1].lower()
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
