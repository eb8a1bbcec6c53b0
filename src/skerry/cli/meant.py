"""Explains wrong usage: suggests the nearest command, and never prints a possible secret."""

import re
import sys
from argparse import ArgumentParser
from typing import Final, NoReturn

from skerry.infra.spelling import spelt_like

UNRECOGNIZED: Final = "unrecognized arguments: "
_PLAIN: Final = re.compile(r"[a-z]+(?:-[a-z]+)*|-{1,2}[A-Za-z][A-Za-z-]*")
"""Words that are printed again: commands and options match, tokens and passwords hardly ever."""
_MAX_SHOWN_CHARS: Final = 24
_HIDDEN: Final = "(hidden)"


class WrongUsageError(SystemExit):
    """Wrong usage, already printed for a person; ends the process with code 2."""

    def __init__(self, message: str, command: str) -> None:
        self.message = message
        self.command = command
        super().__init__(2)


class Parser(ArgumentParser):
    """Parser that suggests commands and options near an unknown one."""

    def error(self, message: str) -> NoReturn:
        """Prints the error to stderr.

        Raises:
            WrongUsageError: always.
        """
        invalid = re.fullmatch(
            r"argument COMMAND: invalid choice: '(.{0,64})' \(choose from (.*)\)", message
        )
        if invalid is not None:
            near = spelt_like(invalid[1], re.findall(r"[\w-]+", invalid[2]))
            hint = f" Did you mean `{self.prog} {near[0]}`?" if near else ""
            word = _repeated(invalid[1])
            message = f"unknown command `{self.prog} {word}`.{hint} `{self.prog} --help` lists all."
        elif message.startswith(UNRECOGNIZED):
            words = message.removeprefix(UNRECOGNIZED).split(" ")
            message = f"{UNRECOGNIZED}{_listed(words)}{self._suggested(words)}"
        else:
            message = re.sub(r"^(ambiguous option: [^=\s]+)=.*?(?= could match )", r"\1", message)
        self.print_usage(sys.stderr)
        self._print_message(f"{self.prog}: error: {message}\n", sys.stderr)
        raise WrongUsageError(message, self.prog)

    def _suggested(self, words: list[str]) -> str:
        """Returns a sentence with the options that an unrecognized option resembles; or ""."""
        names = [name for name in self._option_string_actions if name.startswith("--")]
        unknown = next((word for word in words if word.startswith("--")), "").partition("=")[0]
        near = spelt_like(unknown, names) if unknown else []
        return f". Did you mean {near[0]}?" if near else ""


def _listed(words: list[str]) -> str:
    """Returns the unrecognized words, without values of options."""
    words_shown: list[str] = []
    for word in words:
        is_value = (
            bool(words_shown) and words_shown[-1].startswith("-") and not word.startswith("-")
        )
        words_shown.append(_HIDDEN if is_value else _repeated(word.partition("=")[0]))
    return " ".join(words_shown)


def _repeated(word: str) -> str:
    return word if len(word) <= _MAX_SHOWN_CHARS and _PLAIN.fullmatch(word) else _HIDDEN
