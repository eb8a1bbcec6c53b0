"""Patterns of commands that run unasked, as `tools.exec.allowlist` has them.

A pattern is words, as a shell would split them. The first names a program; each other is compared
with the word of the command at its place. A `*` outside quotes stays in one word, crosses no `/`
and begins no option; as the last word it takes all further operands, and no options. A pattern
that is one path names a program with any arguments, and may have `*`, `?` and `**`.
"""

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.features.exec.programs import Resolved, is_on_path, resolve

MAX_CHARACTERS: Final = 4096
_STAR: Final = "\ue000"
"""Stands for a `*` outside quotes; commands with it are refused."""


class PatternError(ValueError):
    """A pattern cannot be used; the text says why."""


class Pattern(Struct, frozen=True):
    """One pattern, ready to be compared."""

    text: str
    program: str
    """Name or path of the program; in a path pattern with its globs."""
    words: tuple[re.Pattern[str], ...]
    takes_rest: bool
    """True where the last word is `*`."""
    is_path: bool
    """True for a path alone: any arguments."""
    is_exact: bool
    """True where it has no `*`, and the arguments are part of it."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Pattern:
    """Returns the pattern.

    Raises:
        PatternError: it cannot be used.
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


def quoted(argv: Sequence[str]) -> str:
    """Returns the pattern that these words alone match."""
    return " ".join(map(shlex.quote, argv))


def matches(
    pattern: Pattern, argv: Sequence[str], program: Resolved, search_path: Sequence[str]
) -> bool:
    """Returns whether the command matches.

    Args:
        pattern: The pattern.
        argv: The words of the command.
        program: The program of its first word.
        search_path: Folders in which the first word of the pattern is looked up.
    """
    if pattern.is_path:
        return _is_under_path(pattern.program, program)
    wanted = resolve(pattern.program, search_path)
    if wanted is None or (wanted.name, wanted.real) != (program.name, program.real):
        return False
    if not is_on_path(program, search_path) and program.path != wanted.path:
        return False
    words, rest = argv[1 : 1 + len(pattern.words)], argv[1 + len(pattern.words) :]
    if len(words) < len(pattern.words) or (rest and not pattern.takes_rest):
        return False
    return not any(word.startswith("-") for word in rest) and all(
        form.fullmatch(word) for form, word in zip(pattern.words, words, strict=True)
    )


def _is_under_path(pattern: str, program: Resolved) -> bool:
    if not re.search(r"[*?]", pattern):
        wanted = resolve(pattern)
        return wanted is not None and (wanted.name, wanted.real) == (program.name, program.real)
    return _path_form(pattern).fullmatch(program.real) is not None


@lru_cache(maxsize=256)
def _path_form(pattern: str) -> re.Pattern[str]:
    forms = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(forms.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _compiled(word: str) -> re.Pattern[str]:
    if _STAR not in word:
        return re.compile(re.escape(word))
    if word.startswith("-") and _STAR in word.partition("=")[0]:
        raise PatternError(f"{word.replace(_STAR, '*')!r} would take any option")
    parts = re.split(f"({_STAR})", word)
    form = "".join("[^/]*" if part == _STAR else re.escape(part) for part in parts)
    # As in a shell, no star stands for the dot at the start of a name: `..` is such a name.
    form = re.sub(r"(^|/)\[\^/\]\*", r"\1(?![.])[^/]*", form)
    # A star that is a whole name stands for one.
    form = re.sub(r"\(\?!\[\.\]\)\[\^/\]\*(/|$)", r"(?![.])[^/]+\1", form)
    guard = "(?!-)" if word.startswith(_STAR) else ""
    return re.compile(guard + form, re.DOTALL)


def _split(text: str) -> list[str]:
    """Returns the words of a pattern, with `_STAR` for each star outside quotes."""
    if _STAR in text or not text.isprintable():
        raise PatternError("it has a control or invisible character")
    words: list[str] = []
    word: list[str] | None = None
    for piece in _PIECE.finditer(text):
        if piece["blank"]:
            words += [] if word is None else ["".join(word)]
            word = None
            continue
        word = [] if word is None else word
        word.append(_piece(piece))
    words += [] if word is None else ["".join(word)]
    if not words or not words[0]:
        raise PatternError("it is empty")
    return words


_PIECE: Final = re.compile(
    r"(?P<blank> +)|'(?P<raw>[^']*)'|\"(?P<quoted>(?:\\.|[^\"\\])*)\"|\\(?P<escaped>.)"
    r"|(?P<star>\*)|(?P<open>['\"\\])|(?P<plain>.)"
)


def _piece(piece: re.Match[str]) -> str:
    if piece["open"]:
        raise PatternError("a quote is not closed")
    if piece["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", piece["quoted"])
    if piece["star"]:
        return _STAR
    return str(piece["raw"] or piece["escaped"] or piece["plain"] or "")
