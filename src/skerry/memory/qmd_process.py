"""Runs programs that may hang, print too much or leave children: each in a group that is ended."""

import os
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
"""Of standard output, in bytes; what prints more is stopped (openclaw-behaviour 10.10)."""
_TOLD: Final = 600
"""Characters of what a program said last that an error repeats."""
_LINGER_SECONDS: Final = 1.0
"""How long output is awaited from a group that was ended; what left the group may hold it open."""
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


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left."""

    code: int
    """Negative where a signal ended it."""
    out: bytes
    err: str
    """The end of what it said on standard error."""

    def checked(self, what: str) -> "Finished":
        """Return itself.

        Raises:
            QmdError: the program failed.
        """
        if self.code == 0:
            return self
        how = _how(self.code)
        said = f": {self.err}" if self.err else "."
        raise QmdError(f"{what} {how}{said}")


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
    """Return what the program left. Its whole group is ended, also when this is cancelled.

    Raises:
        QmdError: it cannot be started, takes longer than `seconds`, or prints more than `most`
            bytes.
    """
    what = " ".join((Path(command[0]).name, *command[1:2]))
    out, err = _Output(most), _Output(_TOLD, tail=True)
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
    said = " ".join(bytes(err.data).decode(errors="replace").split())
    return Finished(process.returncode or 0, bytes(out.data), said)


@asynccontextmanager
async def child(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, listens: bool = False
) -> AsyncGenerator[anyio.abc.Process]:
    """Run the program in a group of its own; at the block's end, and when we die, all of it ends.

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
    """Kill every process of the group that `pid` leads."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says the second of a dead group
        os.killpg(pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code in {-signal.SIGSEGV, 128 + signal.SIGSEGV}:
        return "crashed (segmentation fault)"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"failed with code {code}"
