"""Removes programs that only start another one, such as `timeout 5`, from a command."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

MAX_DEPTH: Final = 5
"""Maximum wrappers around a command; a command with more is not judged."""


class Wrapper(Struct, frozen=True):
    """Command line of a program that runs the rest of its words."""

    flags: frozenset[str] = frozenset()
    """Options without a value."""
    valued: frozenset[str] = frozenset()
    """Options with a value, in the next word or attached."""
    operands: tuple[re.Pattern[str], ...] = ()
    """Words between the options and the command."""
    attached: re.Pattern[str] | None = None
    """Form of further options, such as the `-5` of nice."""
    is_builtin: bool = False
    """True for a builtin of the shell, which starts no program."""


_NUMBER: Final = re.compile(r"\d{1,9}")
WRAPPERS: Final = {
    "env": Wrapper(),
    "nice": Wrapper(
        valued=frozenset({"-n", "--adjustment"}), attached=re.compile(r"-\d{1,2}|--\d{1,2}")
    ),
    "nohup": Wrapper(),
    "timeout": Wrapper(
        flags=frozenset({"--foreground", "--preserve-status", "-v", "--verbose"}),
        valued=frozenset({"-k", "--kill-after", "-s", "--signal"}),
        operands=(re.compile(r"\d{1,9}(\.\d{1,9})?[smhd]?"),),
    ),
    "stdbuf": Wrapper(valued=frozenset({"-i", "-o", "-e", "--input", "--output", "--error"})),
    "setsid": Wrapper(flags=frozenset({"-w", "--wait"})),
    "ionice": Wrapper(
        flags=frozenset({"-t", "--ignore"}),
        valued=frozenset({"-c", "--class", "-n", "--classdata"}),
    ),
    "chrt": Wrapper(
        flags=frozenset(
            {"-b", "--batch", "-f", "--fifo", "-i", "--idle", "-o", "--other", "-r", "--rr"}
        ),
        operands=(_NUMBER,),
    ),
    "taskset": Wrapper(
        flags=frozenset({"-c", "--cpu-list"}),
        operands=(re.compile(r"(0x)?[0-9a-fA-F,\-]{1,100}"),),
    ),
    "time": Wrapper(flags=frozenset({"-p"}), is_builtin=True),
    "command": Wrapper(is_builtin=True),
}
_VALUE: Final = re.compile(r"[A-Za-z0-9.+\-]{1,32}")
"""Form of the values of options: numbers, durations, signals, sizes, classes."""


class Peeled(Struct, frozen=True):
    """A command without its wrappers."""

    argv: tuple[str, ...]
    wrappers: tuple[str, ...]
    """First words of the wrappers, the outermost first."""
    is_complete: bool
    """False if an option of a wrapper is unknown, or if there are too many wrappers."""


def peel(argv: tuple[str, ...]) -> Peeled:
    """Returns the command without its wrappers."""
    wrappers: list[str] = []
    while argv and (wrapper := WRAPPERS.get(_name(argv[0]))):
        inner = _inner(argv[1:], wrapper)
        if inner is None or len(wrappers) == MAX_DEPTH:
            return Peeled(argv, tuple(wrappers), is_complete=False)
        wrappers.append(argv[0])
        argv = inner
    return Peeled(argv, tuple(wrappers), is_complete=True)


def is_wrapper(word: str) -> bool:
    """Returns whether the word names a wrapper."""
    return _name(word) in WRAPPERS


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _inner(words: Sequence[str], wrapper: Wrapper) -> tuple[str, ...] | None:
    """Returns the words after the options and operands; None if an option is unknown."""
    number = 0
    while number < len(words) and words[number].startswith("-") and words[number] != "--":
        count = _option(words[number : number + 2], wrapper)
        if not count:
            return None
        number += count
    if words[number : number + 1] == ["--"] or words[number : number + 1] == ("--",):
        number += 1
    for operand in wrapper.operands:
        if number >= len(words) or not operand.fullmatch(words[number]):
            return None
        number += 1
    inner = tuple(words[number:])
    is_plain = inner and not inner[0].startswith("-") and "=" not in inner[0]
    return inner if is_plain else None


def _option(words: Sequence[str], wrapper: Wrapper) -> int:
    """Returns the number of words of the option; 0 if it is unknown."""
    option = words[0]
    if option in wrapper.flags or (wrapper.attached and wrapper.attached.fullmatch(option)):
        return 1
    if option in wrapper.valued:
        return 2 if len(words) > 1 and _VALUE.fullmatch(words[1]) else 0
    name, equals, value = option.partition("=")
    if not option.startswith("--"):
        name, equals, value = option[:2], "=", option[2:]
    return 1 if equals and name in wrapper.valued and _VALUE.fullmatch(value) else 0
