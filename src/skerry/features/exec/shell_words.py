"""Simple commands with literal words: the result of parsing, and the removal of quotes."""

import re
from collections.abc import Iterator
from typing import Final
from unicodedata import category

from msgspec import Struct

NULL_DEVICE: Final = "/dev/null"
_BLANK_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible characters in the categories of letters, marks or symbols."""
_SELECTORS: Final = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Ranges of variation selectors: marks without a visible shape."""
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_GLOB: Final = frozenset("*?[")
_LONE_DOLLAR: Final = re.compile(r"(?<!\\)\$(?=$|[ |)])")
"""A `$` that starts no expansion, as at the end of `"^a$"`."""
_ESCAPED_IN_QUOTES: Final = frozenset('$`"\\')


class RefusedCommandError(Exception):
    """A command line has other parts than plain commands: `rule` names the reason."""

    def __init__(self, rule: str, reason: str) -> None:
        self.rule = rule
        self.reason = reason
        super().__init__(reason)


class Simple(Struct, frozen=True):
    """One simple command."""

    argv: tuple[str, ...]
    """Words without their quotes; the first is the program."""


class Reading(Struct, frozen=True):
    """Commands that a parser found in a command line."""

    commands: tuple[Simple, ...]
    shape: tuple[str, ...]
    """Operators, groups and redirections around the commands, in the order of the text; each
    command is an empty string."""


def check_characters(text: str) -> None:
    """Refuses control and invisible characters; the caller checks newlines.

    Raises:
        RefusedError: the text has such a character.
    """
    if text.isascii() and text.replace("\n", " ").isprintable():
        pass
    else:
        for character in text:
            if character not in " \n" and _is_hidden(character):
                name = f"U+{ord(character):04X}"
                raise RefusedCommandError(
                    "character", f"the command has a control or invisible character, {name}"
                )
    if "\\\n" in text:
        raise RefusedCommandError("character", "the command has a backslash at the end of a line")


def _is_hidden(character: str) -> bool:
    number = ord(character)
    return (
        category(character) in _REFUSED_CATEGORIES
        or character in _BLANK_LETTERS
        or any(first <= number <= last for first, last in _SELECTORS)
    )


def literal(text: str, *, at_start: bool) -> str:
    """Returns unquoted text of a word without its backslashes.

    Args:
        text: Text of the command line outside of quotes.
        at_start: True when the word begins with the text.

    Raises:
        RefusedError: a shell would expand the text.
    """
    return "".join(_literals(text, at_start=at_start))


def _literals(text: str, *, at_start: bool) -> Iterator[str]:
    before = "" if at_start else "x"
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if not escaped or escaped == "\n":
                raise RefusedCommandError("syntax", "a backslash is the last character")
            yield escaped
            before = "x"
            continue
        _check_unquoted(character, before)
        yield character
        before = character


def _check_unquoted(character: str, before: str) -> None:
    if character in _GLOB:
        raise RefusedCommandError("glob", f"{character} outside quotes is a pattern of file names")
    if character in "{}":
        raise RefusedCommandError("brace", "braces outside quotes produce several words")
    if character in "$`":
        raise RefusedCommandError("expansion", f"{character} outside single quotes is an expansion")
    if character == "~" and before in {"", "=", ":"}:
        raise RefusedCommandError("tilde", "~ outside quotes means a home directory")
    if character in " \n'\"|&;()<>":
        raise RefusedCommandError("parsers-differ", "a word has a character that ends words")


def double_quoted(text: str) -> str:
    """Returns the literal meaning of the text between double quotes.

    Raises:
        RefusedError: a shell would expand the text.
    """
    out: list[str] = []
    characters = iter(_LONE_DOLLAR.sub(r"\\$", text))
    for character in characters:
        if character in "$`":
            raise RefusedCommandError("expansion", f"{character} in double quotes is an expansion")
        if character == "\\":
            escaped = next(characters, "")
            out.append(escaped if escaped in _ESCAPED_IN_QUOTES else f"\\{escaped}")
        else:
            out.append(character)
    return checked("".join(out))


def checked(text: str) -> str:
    """Returns the text of a quoted part unchanged.

    Raises:
        RefusedError: the text has a newline.
    """
    if "\n" in text:
        raise RefusedCommandError("character", "a word has a newline")
    return text


def redirection(descriptor: str, operator: str, target: str) -> str:
    """Returns the shape of a redirection to the null device or between descriptors.

    Raises:
        RefusedError: the redirection reads or writes a file.
    """
    if descriptor and not (descriptor.isascii() and descriptor.isdecimal()):
        raise RefusedCommandError("redirection", "a redirection names a descriptor by a variable")
    if len(descriptor) > 1:  # sh reads `20>` as an operand and a redirection, bash as a redirection
        raise RefusedCommandError(
            "redirection", "a redirection names a descriptor of several digits"
        )
    if operator in {">", ">>", "<"} and target == NULL_DEVICE:
        return f"{descriptor}{operator}{target}"
    if operator in {">&", "<&"} and len(target) == 1 and target in "0123456789":
        return f"{descriptor}{operator}{target}"
    raise RefusedCommandError("redirection", f"a redirection, {operator}, goes to a file")
