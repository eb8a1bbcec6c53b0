"""Patterns of `tools.exec.allowlist`: commands that run without approval (pure).

A pattern is split into words as by a shell. The first word is a program; each other word is
compared with the word of the command at the same position. A `*` outside quotes matches within one
word, not across `/`, and not the beginning of an option; as the last word it matches all further
operands, but no options. A pattern of one path matches a program with any arguments, and may have
`*`, `?` and `**`.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.policy.command_runners import PRIVILEGED, is_runner
from skerry.policy.command_wrappers import is_wrapper

MAX_CHARACTERS: Final = 4096
_STAR: Final = "\ue000"
"""Internal character for a `*` outside quotes; commands with it are refused."""


class PatternError(ValueError):
    """A pattern cannot be used; the message is the reason."""


class Pattern(Struct, frozen=True):
    """One parsed pattern."""

    text: str
    program: str
    """Name or path of the program; in a path pattern with its globs."""
    words: tuple[re.Pattern[str], ...]
    takes_rest: bool
    """True if the last word is `*`."""
    is_path: bool
    """True for a pattern of one path, which matches any arguments."""
    is_exact: bool
    """True if it has no `*`, and includes the arguments."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Pattern:
    """Returns the parsed pattern.

    Raises:
        PatternError: the pattern cannot be used.
    """
    if len(text) > MAX_CHARACTERS:
        raise PatternError(f"it has more than {MAX_CHARACTERS} characters")
    first, *words = _split(text)
    if first.startswith("~/"):
        first = f"{Path.home()}{first[1:]}"
    is_path = not words and "/" in first
    if "/" in first and not first.startswith("/"):
        raise PatternError("the path of its program is not absolute")
    if _STAR in first and not is_path:
        raise PatternError("its first word has a *; it must name a program")
    takes_rest = bool(words) and words[-1] == _STAR
    if takes_rest:
        words.pop()
    return Pattern(
        text,
        first.replace(_STAR, "*") if is_path else first,
        tuple(map(_compiled, words)),
        takes_rest,
        is_path,
        not (is_path or takes_rest or any(_STAR in word for word in words)),
    )


def problem(text: str) -> str:
    """Returns the reason why a pattern would match no command; empty if it can match."""
    try:
        pattern = parse(text)
    except PatternError as error:
        return str(error)
    if reason := _syntax(text):
        return reason
    program = pattern.program.rpartition("/")[2]
    if program in PRIVILEGED:
        return f"{program} runs a command as another user, which always requires approval"
    # For git it depends on the words: some subcommands run no other program.
    runs = is_runner((program, "status")) or is_wrapper(program)
    if runs and not pattern.is_exact:
        return f"{program} runs other programs, so its pattern must be the whole command without *"
    return ""


def _syntax(text: str) -> str:
    """Returns the reason why a pattern is no list of literal words; empty if it is."""
    plain = "".join(
        match["plain"] or ("x" if not match["blank"] else " ") for match in _TOKEN.finditer(text)
    )
    if operator := _OPERATOR.search(plain):
        return (
            f"it has {operator[0]} outside quotes: joined commands are each compared with the"
            " patterns, and redirections and expansions never match"
        )
    if _ASSIGNMENT.match(plain):
        return "it begins with a variable: a command that sets a variable never matches"
    if " ~" in plain:
        return "~ is not expanded after the first word: write the whole path"
    return ""


def _compiled(word: str) -> re.Pattern[str]:
    if _STAR not in word:
        return re.compile(re.escape(word))
    if word.startswith("-") and _STAR in word.partition("=")[0]:
        raise PatternError(f"{word.replace(_STAR, '*')!r} would take any option")
    parts = re.split(f"({_STAR})", word)
    form = "".join("[^/]*" if part == _STAR else re.escape(part) for part in parts)
    # As in a shell, a star does not match the dot at the start of a name: `..` is such a name.
    form = re.sub(r"(^|/)\[\^/\]\*", r"\1(?![.])[^/]*", form)
    # A star that is a whole name matches at least one character.
    form = re.sub(r"\(\?!\[\.\]\)\[\^/\]\*(/|$)", r"(?![.])[^/]+\1", form)
    guard = "(?!-)" if word.startswith(_STAR) else ""
    return re.compile(guard + form, re.DOTALL)


def _split(text: str) -> list[str]:
    """Returns the words of a pattern, with `_STAR` in place of each star outside quotes."""
    if _STAR in text or not text.isprintable():
        raise PatternError("it has a control or invisible character")
    words: list[str] = []
    word: list[str] | None = None
    for match in _TOKEN.finditer(text):
        if match["blank"]:
            words += [] if word is None else ["".join(word)]
            word = None
            continue
        word = [] if word is None else word
        word.append(_unquoted(match))
    words += [] if word is None else ["".join(word)]
    if not words or not words[0]:
        raise PatternError("it is empty")
    return words


_OPERATOR: Final = re.compile(r"&&|\|\||[|&;<>()$`]")
_ASSIGNMENT: Final = re.compile(r" *[A-Za-z_][A-Za-z0-9_]*=")
_TOKEN: Final = re.compile(
    r"(?P<blank> +)|'(?P<raw>[^']*)'|\"(?P<quoted>(?:\\.|[^\"\\])*)\"|\\(?P<escaped>.)"
    r"|(?P<star>\*)|(?P<open>['\"\\])|(?P<plain>.)"
)


def _unquoted(match: re.Match[str]) -> str:
    if match["open"]:
        raise PatternError("a quote is not closed")
    if match["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", match["quoted"])
    if match["star"]:
        return _STAR
    return str(match["raw"] or match["escaped"] or match["plain"] or "")
