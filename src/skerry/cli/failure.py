"""Prints a failure in three lines: the reason, the remedy, the help.

With `--json` it is also printed to stdout as one object: `{"ok": false, "error": {...}}`.
"""

import errno
import os
import sys
import traceback
from typing import Final

from skerry.cli.meant import WrongUsageError
from skerry.cli.render import notice, plain, show_json, styled
from skerry.model.errors import GatewayRefusedError, SkerryError

FAILED: Final = 1
_OF_SYSTEM: Final = {
    errno.EACCES: "Give this user the right to it, or name another path.",
    errno.ENOSPC: "Make room on its disk.",
    errno.EROFS: "Its file system can only be read: mount it for writing, or name another path.",
}
_OTHERWISE: Final = "Check the name and its permissions."
TIMED_OUT: Final = 124
"""Exit code of the command `timeout`."""
DEBUG: Final = "SKERRY_DEBUG"


class FailedError(SkerryError):
    """A command failed; `exit_code` is that of the process."""

    code = "command"

    def __init__(self, reason: str, remedy: str, exit_code: int = FAILED) -> None:
        self.remedy = remedy
        self.exit_code = exit_code
        super().__init__(reason)


def report(error: Exception, command: str, *, as_json: bool = False) -> int:
    """Prints the failure of `command` (`skerry gateway call`) to stderr; returns the exit code.

    With `as_json` it is also printed to stdout as one JSON object.
    """
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group puts even one error into a group
    reason, remedy = _texts(error)
    if as_json:
        show_json({"ok": False, "error": _object(error, reason, remedy)})
    return complain(reason, remedy, command, _exit_code(error))


def show_wrong_usage(error: WrongUsageError) -> None:
    """Prints wrong usage as one JSON object to stdout, in addition to the text on stderr."""
    remedy = f"`{error.command} --help` lists its arguments."
    failure = {"code": "usage", "message": error.message, "remedy": remedy}
    show_json({"ok": False, "error": failure})


def _texts(error: Exception) -> tuple[str, str]:
    """Returns the reason and the remedy."""
    match error:
        case SkerryError():
            return str(error), error.remedy
        case TimeoutError():
            return str(error) or "No answer in time.", "Raise the limit with --timeout."
        case OSError() if error.strerror:
            name = f"{error.filename}: " if error.filename else ""
            return f"{name}{error.strerror}.", _OF_SYSTEM.get(error.errno or 0, _OTHERWISE)
        case _:
            reason = f"An unexpected {type(error).__name__}: {error}"
            return reason, f"Run it again with {DEBUG}=1 and report what it prints."


def _exit_code(error: Exception) -> int:
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    return error.exit_code if isinstance(error, FailedError) else FAILED


def _object(error: Exception, reason: str, remedy: str) -> dict[str, object]:
    """Returns the failure for scripts; the error of a gateway with the codes of the wire."""
    failure: dict[str, object] = {"code": _code(error), "message": reason, "remedy": remedy}
    if isinstance(error, GatewayRefusedError):
        failure |= {"code": error.details_code or error.wire_code, "wireCode": error.wire_code}
        if error.retry_after_ms is not None:
            failure["retryAfterMs"] = error.retry_after_ms
    return failure


def _code(error: Exception) -> str:
    match error:
        case SkerryError():
            return error.code
        case TimeoutError():
            return "timeout"
        case OSError():
            return "system"
        case _:
            return "internal"


def complain(reason: str, remedy: str, command: str, code: int = 0) -> int:
    """Prints the three lines to stderr; returns `code`, or 1."""
    for label, text in (
        ("Reason", reason),
        ("Try", remedy or "`skerry doctor` checks this installation."),
        ("Help", f"{command} --help"),
    ):
        notice(f"{styled(label + ':', 'bold', sys.stderr)} {plain(text)}")
    return code or FAILED
