"""Runs the programs of QMD, and extracts the reason of a failure from their output."""

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from skerry.infra import process
from skerry.infra.process import Finished, ProcessError, Program
from skerry.model.memory import MemoryBackendError

MAX_OUTPUT_BYTES: Final = 200_000
"""Limit on standard output; a program that prints more is killed (openclaw-behaviour 10.10)."""
_MAX_REASON: Final = 300
"""Limit on the characters of a program's output in an error."""
_REASON: Final = re.compile(r"(?:Uncaught )?(?:\w*Error|Error)(?: \[\w+\])?: (?P<why>\S.*)")
_TRACE: Final = re.compile(
    r"\s*(?:at .*|\^+|file://\S*|/\S*:\d+|node:\S+|Node\.js v\S+|throw .*|[\[\]{}(),;]*|code: .*)"
)
"""Lines of a stack trace of Node."""


class QmdError(MemoryBackendError):
    """QMD cannot be run, or failed; `remedy` may be empty."""

    code = "memory.qmd"

    def __init__(self, message: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(message)


class QmdFailedError(QmdError):
    """QMD exited with an error, as it does with a damaged index."""


async def run(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, seconds: float
) -> Finished:
    """Runs the program and returns its result; `err` is the reason of a failure.

    Raises:
        QmdError: it cannot be started, took longer than `seconds`, or printed too much.
    """
    try:
        program = Program(command, environ, folder)
        finished = await process.run(program, seconds=seconds, max_bytes=MAX_OUTPUT_BYTES)
    except ProcessError as error:
        raise QmdError(str(error)) from error
    return Finished(finished.code, finished.out, reason(finished.err))


def checked(finished: Finished, program: str) -> Finished:
    """Returns the result of a program that succeeded.

    Raises:
        QmdFailedError: it failed.
    """
    if finished.code == 0:
        return finished
    detail = f": {finished.err}" if finished.err else "."
    raise QmdFailedError(f"{program} {_outcome(finished.code)}{detail}")


def reason(output: str) -> str:
    """Extracts the reason of a failure from a program's output, without stack trace (pure)."""
    lines = output.splitlines()
    named = next((match for line in lines if (match := _REASON.match(line.strip()))), None)
    messages = [line for line in lines if not _TRACE.fullmatch(line)]
    text = " ".join((named[0] if named else " ".join(messages)).split())
    if len(text) <= _MAX_REASON:
        return text
    if named:
        return f"{text[:_MAX_REASON].rpartition(' ')[0] or text[:_MAX_REASON]} …"
    end = text[-_MAX_REASON:]  # the last lines have the reason
    return f"… {end.partition(' ')[2] or end}"


def _outcome(code: int) -> str:
    if code in {-signal.SIGSEGV, 128 + signal.SIGSEGV}:
        return "crashed (segmentation fault)"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"failed with code {code}"
