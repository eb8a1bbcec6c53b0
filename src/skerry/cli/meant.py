"""Suggests the nearest command for an unknown one."""

import re
import sys
from argparse import ArgumentParser
from typing import NoReturn

from skerry.infra.spelling import spelt_like


class WrongUsageError(SystemExit):
    """Wrong usage, already printed for a person; ends the process with code 2."""

    def __init__(self, message: str, command: str) -> None:
        self.message = message
        self.command = command
        super().__init__(2)


class Parser(ArgumentParser):
    """A parser that suggests commands near an unknown one."""

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong on stderr.

        Raises:
            WrongUsageError: always.
        """
        invalid = re.fullmatch(
            r"argument COMMAND: invalid choice: '(.{0,64})' \(choose from (.*)\)", message
        )
        if invalid is not None:
            near = spelt_like(invalid[1], re.findall(r"[\w-]+", invalid[2]))
            hint = f" Did you mean `{self.prog} {near[0]}`?" if near else ""
            message = (
                f"unknown command `{self.prog} {invalid[1]}`.{hint} `{self.prog} --help` lists all."
            )
        self.print_usage(sys.stderr)
        self._print_message(f"{self.prog}: error: {message}\n", sys.stderr)
        raise WrongUsageError(message, self.prog)
