"""Says what went wrong in three lines: the reason, what to try, where to read on."""

import os
import sys
import traceback
from typing import Final

from skerry.cli.render import notice, plain, styled
from skerry.model.errors import SkerryError

FAILED: Final = 1
TIMED_OUT: Final = 124
"""The exit code of the command `timeout`."""
DEBUG: Final = "SKERRY_DEBUG"


def report(error: Exception, command: str) -> int:
    """Print the failure of `command` (`skerry gateway call`) on stderr; return the exit code."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group puts even one error into a group
    match error:
        case SkerryError():
            reason, remedy = str(error), error.remedy
        case TimeoutError():
            reason, remedy = str(error) or "No answer in time.", "Allow more with --timeout."
        case OSError() if error.strerror:
            name = f"{error.filename}: " if error.filename else ""
            reason, remedy = f"{name}{error.strerror}.", "Check the name and its permissions."
        case _:
            reason = f"An unexpected {type(error).__name__}: {error}"
            remedy = f"Run it again with {DEBUG}=1 and report what it prints."
    return complain(reason, remedy, command, TIMED_OUT if isinstance(error, TimeoutError) else 0)


def complain(reason: str, remedy: str, command: str, code: int = 0) -> int:
    """Print the three lines on stderr; return `code`, or 1."""
    for label, text in (
        ("Reason", reason),
        ("Try", remedy or "`skerry doctor` checks this installation."),
        ("Help", f"{command} --help"),
    ):
        notice(f"{styled(label + ':', 'bold', sys.stderr)} {plain(text)}")
    return code or FAILED
