"""Safe bins: filters that read only their standard input, with their harmless options.

An option is listed by its full name. A shortened option is refused, and so is each word that a
program would treat as a file name.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

DEFAULT: Final = ("cat", "cut", "grep", "head", "jq", "tail", "tr", "uniq", "wc")
"""Default safe bins."""


class Filter(Struct, frozen=True):
    """Options and operands with which a program reads no file."""

    flags: str = ""
    """Letters of short options without a value."""
    valued: str = ""
    """Letters of short options with a value, attached or in the next word."""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    """Long options with a value, after `=` or in the next word."""
    optional: frozenset[str] = frozenset()
    """Long options with an optional value after `=`."""
    operands: int = 0
    """Maximum number of operands."""
    expression: str = ""
    """Options that replace the first operand."""
    number: bool = False
    """True when `-5` is an option."""
    two_valued: frozenset[str] = frozenset()
    """Options with two values, in the next words."""
    refused: re.Pattern[str] | None = None
    """Text that no operand may contain."""
    dash: bool = False
    """True when the operand `-` means standard input."""
    plain_longs: bool = True
    """False when no long option has its value after `=`."""


def _names(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


FILTERS: Final = {
    "cat": Filter(
        "AbeEnstTuv",
        long_flags=_names(
            "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"
        ),
        dash=True,
    ),
    "cut": Filter(
        "snz",
        "bcfd",
        long_flags=_names("complement only-delimited zero-terminated"),
        long_valued=_names("bytes characters fields delimiter output-delimiter"),
        dash=True,
    ),
    "grep": Filter(
        "ivwxcnoqshHEFGPazbTyUlL",
        "emABC",
        long_flags=_names(
            "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case"
            " word-regexp line-regexp null-data no-messages invert-match byte-offset line-number"
            " line-buffered with-filename no-filename only-matching quiet silent text count"
            " initial-tab null"
        ),
        long_valued=_names("regexp max-count after-context before-context context"),
        optional=_names("color colour"),
        operands=1,
        expression="e --regexp",
        number=True,
        dash=True,
    ),
    "head": Filter(
        "qvz",
        "nc",
        long_flags=_names("quiet silent verbose zero-terminated"),
        long_valued=_names("lines bytes"),
        number=True,
        dash=True,
    ),
    "tail": Filter(
        "qvz",
        "nc",
        long_flags=_names("quiet silent verbose zero-terminated"),
        long_valued=_names("lines bytes"),
        number=True,
        dash=True,
    ),
    "jq": Filter(
        "rcnsejMCaSR",
        long_flags=_names(
            "raw-output compact-output null-input slurp exit-status join-output monochrome-output"
            " color-output ascii-output sort-keys raw-input tab stream seq unbuffered raw-output0"
        ),
        long_valued=_names("indent"),
        two_valued=_names("arg argjson"),
        operands=1,
        refused=re.compile(
            r"\b(?:env|ENV|import|include|input_filename|modulemeta|get_search_list"
            r")\b|__prog"
        ),
        plain_longs=False,
    ),
    "sort": Filter(
        "bdfghiMnRrVcCmsuz",
        "kt",
        long_flags=_names(
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort"
            " human-numeric-sort ignore-nonprinting month-sort numeric-sort reverse random-sort"
            " version-sort stable unique zero-terminated"
        ),
        long_valued=_names("key field-separator"),
        optional=_names("check"),
        dash=True,
    ),
    "tr": Filter(
        "cCdst", long_flags=_names("complement delete squeeze-repeats truncate-set1"), operands=2
    ),
    "uniq": Filter(
        "cdDiuz",
        "fsw",
        long_flags=_names("count repeated ignore-case unique zero-terminated"),
        long_valued=_names("skip-fields skip-chars check-chars"),
        optional=_names("all-repeated group"),
    ),
    "wc": Filter("clLmw", long_flags=_names("bytes chars lines max-line-length words"), dash=True),
    "rev": Filter(),
    "tac": Filter(
        "br", "s", long_flags=_names("before regex"), long_valued=_names("separator"), dash=True
    ),
    "nl": Filter("p", "bdfhilnsvw", dash=True),
    "fold": Filter(
        "bs", "w", long_flags=_names("bytes spaces"), long_valued=_names("width"), dash=True
    ),
    "fmt": Filter("cstu", "wgp"),
    "expand": Filter("i", "t", long_flags=_names("initial"), long_valued=_names("tabs"), dash=True),
    "unexpand": Filter(
        "a", "t", long_flags=_names("all first-only"), long_valued=_names("tabs"), dash=True
    ),
    "base64": Filter(
        "di", "w", long_flags=_names("decode ignore-garbage"), long_valued=_names("wrap"), dash=True
    ),
    "column": Filter(
        "tx", "cNos", long_flags=_names("table"), long_valued=_names("separator output-separator")
    ),
    "md5sum": Filter("bt", long_flags=_names("binary text"), dash=True),
    "sha1sum": Filter("bt", long_flags=_names("binary text"), dash=True),
    "sha256sum": Filter("bt", long_flags=_names("binary text"), dash=True),
    "sha512sum": Filter("bt", long_flags=_names("binary text"), dash=True),
}


def problem(argv: Sequence[str]) -> str:
    """Returns the reason why the command is not safe, or an empty string."""
    profile = FILTERS.get(argv[0].rpartition("/")[2])
    if profile is None:
        return f"{argv[0]} has no list of safe options"
    return _Words(profile, argv[1:]).problem()


class _Words:
    """Checks the words of one command."""

    def __init__(self, profile: Filter, words: Sequence[str]) -> None:
        self._profile = profile
        self._words = list(words)
        self._operands: list[str] = []
        self._has_expression = False

    def problem(self) -> str:
        """Returns the reason why the command is not safe, or an empty string."""
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                self._operands += self._words
                break
            if word == "-" or not word.startswith("-"):
                self._operands.append(word)
            elif not (self._long(word) if word.startswith("--") else self._short(word)):
                return f"the option {word} is not in the list of safe options"
        return self._operand_problem()

    def _operand_problem(self) -> str:
        limit = self._profile.operands - (1 if self._has_expression else 0)
        if self._profile.dash and self._operands[limit:] == ["-"]:
            self._operands.pop()
        if len(self._operands) > limit:
            return f"{self._operands[limit]} would be read as a file"
        refused = self._profile.refused
        if refused and any(map(refused.search, self._operands)):
            return "its program reads the environment or other files"
        return ""

    def _value(self, count: int = 1) -> bool:
        """Removes the values of an option; returns false when words are missing."""
        is_enough = len(self._words) >= count
        del self._words[:count]
        return is_enough

    def _long(self, word: str) -> bool:
        profile = self._profile
        name, equals, _ = word.partition("=")
        if name in profile.expression.split():
            self._has_expression = True
        if name in profile.long_valued:
            return profile.plain_longs if equals else self._value()
        if name in profile.two_valued:
            return not equals and self._value(2)
        if name in profile.optional:
            return True
        return not equals and name in profile.long_flags

    def _short(self, word: str) -> bool:
        profile = self._profile
        letters = word[1:]
        if profile.number and letters.isascii() and letters.isdecimal():
            return True
        for number, letter in enumerate(letters, 1):
            if letter in profile.valued:
                self._has_expression = self._has_expression or letter in profile.expression.split()
                return number < len(letters) or self._value()
            if letter not in profile.flags:
                return False
        return True
