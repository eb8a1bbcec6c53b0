"""Runs programs that may hang, print too much or leave children: each in a group that is ended."""

import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from skerry.model.memory import MemoryBackendError

MOST_CHARS: Final = 200_000
"""Limit on standard output, in bytes; a program that prints more is killed (openclaw-behaviour
10.10)."""
_TOLD: Final = 300
"""Characters of what a program said that an error repeats."""
_HEARD: Final = 16_384
"""Bytes of what it said last in which its reason is looked for."""
_REASON: Final = re.compile(r"(?:Uncaught )?(?:\w*Error|Error)(?: \[\w+\])?: (?P<why>\S.*)")
_TRACE: Final = re.compile(
    r"\s*(?:at .*|\^+|file://\S*|/\S*:\d+|node:\S+|Node\.js v\S+|throw .*|[\[\]{}(),;]*|code: .*)"
)
"""Lines of a stack trace of Node."""
_LINGER_SECONDS: Final = 1.0
"""Seconds to wait for the output of a group that was ended; a process that left the group may hold
it open."""
_GUARD: Final = """
pipe=/dev/fd/$1
shift
{ read -r _; kill -KILL 0; } <"$pipe" >/dev/null 2>&1 &
exec "$@"
"""
"""Becomes the program. Beside it a reader waits for the end of a pipe that only we hold open: when
we end, however that happens, it ends the group. The launcher of QMD starts a second process, which
the death of a parent would not reach."""


class QmdError(MemoryBackendError):
    """QMD cannot be run, or does not do what it should; `remedy` says what helps, if anything."""

    code = "memory.qmd"

    def __init__(self, message: str, remedy: str = "") -> None:
        self.remedy = remedy
        super().__init__(message)


class QmdFailedError(QmdError):
    """QMD ended with an error of its own, as with a damaged index."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Result of a program."""

    code: int
    """Negative where a signal ended it."""
    out: bytes
    err: str
    """Its reason, as it said on standard error, without a stack trace."""

    def checked(self, what: str) -> "Finished":
        """Returns itself.

        Raises:
            QmdFailedError: the program failed.
        """
        if self.code == 0:
            return self
        how = _how(self.code)
        said = f": {self.err}" if self.err else "."
        raise QmdFailedError(f"{what} {how}{said}")


@dataclass(slots=True)
class _Output:
    """The first `most` bytes of a stream, or its last."""

    most: int
    tail: bool = False
    data: bytearray = field(default_factory=bytearray)
    over: bool = False

    async def take(self, stream: anyio.abc.ByteReceiveStream, pid: int) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for part in stream:
                self.data += part
                if len(self.data) <= self.most:
                    continue
                if self.tail:
                    del self.data[: -self.most]
                    continue
                self.over = True
                end_group(pid)
                return


async def run(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    folder: Path,
    seconds: float,
    most: int = MOST_CHARS,
) -> Finished:
    """Runs the program and returns its result. Its whole group is ended, also on cancellation.

    Raises:
        QmdError: it cannot be started, takes longer than `seconds`, or prints more than `most`
            bytes.
    """
    what = " ".join((Path(command[0]).name, *command[1:2]))
    out, err = _Output(most), _Output(_HEARD, tail=True)
    try:
        with anyio.fail_after(seconds):
            async with (
                child(command, environ=environ, folder=folder) as process,
                anyio.create_task_group() as tasks,
            ):
                if process.stdout is not None and process.stderr is not None:
                    tasks.start_soon(out.take, process.stdout, process.pid)
                    tasks.start_soon(err.take, process.stderr, process.pid)
                await process.wait()
                end_group(process.pid)  # what it left behind would hold its output open
                tasks.cancel_scope.deadline = anyio.current_time() + _LINGER_SECONDS
    except TimeoutError:
        raise QmdError(f"{what} did not end within {seconds:g} s and was stopped.") from None
    if out.over:
        raise QmdError(f"{what} printed more than {most} characters and was stopped.")
    said = bytes(err.data).decode(errors="replace")
    return Finished(process.returncode or 0, bytes(out.data), reason(said))


def reason(said: str) -> str:
    """Returns why a program failed, of what it said: a sentence, no stack trace (pure)."""
    lines = said.splitlines()
    named = next((found for line in lines if (found := _REASON.match(line.strip()))), None)
    rest = [line for line in lines if not _TRACE.fullmatch(line)]
    told = " ".join((named[0] if named else " ".join(rest)).split())
    if len(told) <= _TOLD:
        return told
    if named:
        return f"{told[:_TOLD].rpartition(' ')[0] or told[:_TOLD]} …"
    return f"… {told[-_TOLD:].partition(' ')[2] or told[-_TOLD:]}"  # what was said last counts


@asynccontextmanager
async def child(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, listens: bool = False
) -> AsyncGenerator[anyio.abc.Process]:
    """Runs the program in a group of its own; at the block's end, and when we die, all of it ends.

    One that `listens` has a pipe of ours as its standard input, others have none.

    Raises:
        QmdError: it cannot be started.
    """
    theirs, ours = os.pipe()
    try:
        # Cancelled in between, a start would leave its group and our end of the pipe.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                ["/bin/sh", "-c", _GUARD, "sh", str(theirs), *command],
                stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
                env=dict(environ),
                cwd=folder,
                start_new_session=True,
                pass_fds=[theirs],
            )
    except OSError as error:
        os.close(ours)
        raise QmdError(f"{command[0]} cannot be started: {error.strerror}.") from error
    finally:
        os.close(theirs)
    try:
        yield process
    finally:
        end_group(process.pid)
        os.close(ours)
        with anyio.CancelScope(shield=True):  # it was killed: this takes a moment
            await process.aclose()


def end_group(pid: int) -> None:
    """Kills every process of the group that `pid` leads."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says the second of a dead group
        os.killpg(pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code in {-signal.SIGSEGV, 128 + signal.SIGSEGV}:
        return "crashed (segmentation fault)"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"failed with code {code}"
