"""Runs the programs of QMD, and finds the reason of a failure in what they print."""

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from skerry.infra import process
from skerry.infra.process import Finished, ProcessError, Program
from skerry.model.memory import MemoryBackendError

MOST_CHARS: Final = 200_000
"""Limit on standard output, in bytes; a program that prints more is killed (openclaw-behaviour
10.10)."""
_MAX_REASON: Final = 300
"""Characters of what a program said that an error repeats."""
_REASON: Final = re.compile(r"(?:Uncaught )?(?:\w*Error|Error)(?: \[\w+\])?: (?P<why>\S.*)")
_TRACE: Final = re.compile(
    r"\s*(?:at .*|\^+|file://\S*|/\S*:\d+|node:\S+|Node\.js v\S+|throw .*|[\[\]{}(),;]*|code: .*)"
)
"""Lines of a stack trace of Node."""


class QmdError(MemoryBackendError):
    """QMD cannot be run, or does not do what it should; `remedy` says what helps, if anything."""

    code = "memory.qmd"

    def __init__(self, message: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(message)


class QmdFailedError(QmdError):
    """QMD ended with an error of its own, as with a damaged index."""


async def run(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, seconds: float
) -> Finished:
    """Runs the program and returns its result, whose `err` is the reason of a failure.

    Raises:
        QmdError: it cannot be started, takes longer than `seconds`, or prints too much.
    """
    try:
        program = Program(command, environ, folder)
        done = await process.run(program, seconds=seconds, max_bytes=MOST_CHARS)
    except ProcessError as error:
        raise QmdError(str(error)) from error
    return Finished(done.code, done.out, reason(done.err))


def checked(done: Finished, program: str) -> Finished:
    """Returns the result of a program that succeeded.

    Raises:
        QmdFailedError: it failed.
    """
    if done.code == 0:
        return done
    why = f": {done.err}" if done.err else "."
    raise QmdFailedError(f"{program} {_how(done.code)}{why}")


def reason(output: str) -> str:
    """Returns why a program failed, of what it said: a sentence, no stack trace (pure)."""
    lines = output.splitlines()
    named = next((match for line in lines if (match := _REASON.match(line.strip()))), None)
    messages = [line for line in lines if not _TRACE.fullmatch(line)]
    text = " ".join((named[0] if named else " ".join(messages)).split())
    if len(text) <= _MAX_REASON:
        return text
    if named:
        return f"{text[:_MAX_REASON].rpartition(' ')[0] or text[:_MAX_REASON]} …"
    end = text[-_MAX_REASON:]  # what was said last counts
    return f"… {end.partition(' ')[2] or end}"


def _how(code: int) -> str:
    if code in {-signal.SIGSEGV, 128 + signal.SIGSEGV}:
        return "crashed (segmentation fault)"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"failed with code {code}"
