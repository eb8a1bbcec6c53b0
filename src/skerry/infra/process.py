"""Child processes: each leads a process group of its own, which is ended as a whole.

A group also ends when this process dies. A child gets only the environment that the caller passes.
A process that starts a session leaves the group: only a namespace (a sandbox) or a scope
(`child_scope`) contains it.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.abc
from msgspec import Struct

from skerry.infra.child_end import when_ended
from skerry.infra.child_guard import guarded
from skerry.infra.pipes import ReadPipe, WritePipe
from skerry.infra.supervise import in_background

T = TypeVar("T")
PYTHON: Final = re.compile("PATH|HOME|LANG|PYTHONPATH|VIRTUAL_ENV|LD_LIBRARY_PATH")
"""Names of the variables that a Python child needs; none of them holds a key."""
OUTPUT_BYTES: Final = 1_000_000
TAIL_BYTES: Final = 16_384
"""Size of the kept end of standard error, in bytes."""
ERROR_BYTES: Final = 64 * 1024 * 1024
"""Bytes of standard error after which the group is ended."""
LINGER_SECONDS: Final = 1.0
"""Seconds to wait for the output of an ended group: a process outside it may hold the pipe open."""
LIFELINE: Final = "@lifeline@"
"""Word in a command that is replaced by the number of the guard's descriptor."""


class ProcessError(Exception):
    """A child could not be started, or was ended at a limit."""


class NotStartedError(ProcessError, OSError):
    """The program does not exist or may not be run; `reason` is the text of the system's error."""

    def __init__(self, program: str, error: OSError) -> None:
        self.reason = error.strerror or str(error)
        super().__init__(f"{program} cannot be started: {self.reason}.")


class LateError(ProcessError):
    """The program exceeded its time; its group was ended."""


class FloodError(ProcessError):
    """The program exceeded the limit of its output; its group was ended."""


class Program(Struct, frozen=True):
    """A program to start."""

    command: Sequence[str]
    """The program, looked up in the `PATH` of `environ`, and its arguments."""
    environ: Mapping[str, str]
    """The whole environment of the program."""
    folder: Path | None = None
    """Working directory; None for that of this process."""
    grace: float = 0.0
    """Seconds between SIGTERM and SIGKILL of the group; 0 sends SIGKILL at once."""
    memory_bytes: int | None = None
    """Limit of the address space of each process of the group; None for no limit."""
    file_bytes: int | None = None
    """Limit of each written file; None for no limit."""
    descriptors: Sequence[int] = ()
    """Descriptors of this process that the program inherits under the same numbers."""
    terminal: int | None = None
    """Descriptor of a terminal that becomes standard input, output and error."""
    merges: bool = False
    """True to send standard error to standard output."""
    filters: bool = False
    """True to start the program without a guard, because it ends at the end of its input."""

    @property
    def name(self) -> str:
        """Returns the file name and the first argument, for messages."""
        return " ".join((Path(self.command[0]).name, *self.command[1:2]))

    def streams(self, *, listens: bool) -> tuple[int, int, int]:
        """Returns `stdin`, `stdout` and `stderr` for `Popen`; `listens` makes a pipe for input."""
        if self.terminal is not None:
            return self.terminal, self.terminal, self.terminal
        errors = subprocess.STDOUT if self.merges else subprocess.PIPE
        return subprocess.PIPE if listens else subprocess.DEVNULL, subprocess.PIPE, errors

    def guarded(self, lifeline: int) -> list[str]:
        """Returns the command with its guard; `lifeline` is the reading end of a pipe.

        Raises:
            OSError: the program does not exist or may not be run; the guard could not report it.
        """
        path = shutil.which(self.command[0], path=self.environ.get("PATH", os.defpath))
        if path is None:
            number = errno.EACCES if Path(self.command[0]).exists() else errno.ENOENT
            raise OSError(number, os.strerror(number))
        pairs = ((self.memory_bytes, 1024), (self.file_bytes, 512))  # the units of `ulimit`
        limits = ["" if limit is None else str(limit // unit) for limit, unit in pairs]
        arguments = (str(lifeline) if word == LIFELINE else word for word in self.command[1:])
        words = [path, *arguments]
        return words if self.filters else guarded(words, lifeline, limits)


class Finished(Struct, frozen=True):
    """Result of a program that ended."""

    code: int
    """Exit code; negative for a signal."""
    out: bytes
    err: str
    """The last `TAIL_BYTES` of standard error."""


def allowed(environ: Mapping[str, str], names: re.Pattern[str] = PYTHON) -> dict[str, str]:
    """Returns the variables whose whole name matches the regular expression `names`."""
    return {name: value for name, value in environ.items() if names.fullmatch(name)}


def module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs a Python module; the current folder is not on its path."""
    return [sys.executable, "-P", "-m", name, *arguments]


def starter(
    environ: Mapping[str, str],
) -> Callable[[Sequence[str], Mapping[str, str]], AbstractAsyncContextManager["Child"]]:
    """Returns a function that runs a command with `PYTHON` and further variables, as `child`."""
    base = allowed(environ)
    return lambda command, variables: child(Program(command, base | dict(variables)), listens=True)


class Child:
    """A running program: its pipes, and the end of its standard error. `child` creates it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._stdin = None if process.stdin is None else WritePipe(process.stdin)
        self._stdout = None if process.stdout is None else ReadPipe(process.stdout)
        self._stderr = None if process.stderr is None else ReadPipe(process.stderr)
        self._tail = bytearray()
        self._silent = anyio.Event()
        self._ended = anyio.Event()
        self._is_killed = False
        when_ended(self.pid, process.wait, self._ended.set)

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns the pipe to standard input. Raises `TypeError` for a child without `listens`."""
        return _opened(self._stdin, "input")

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns the pipe of standard output."""
        return _opened(self._stdout, "output")

    @property
    def returncode(self) -> int | None:
        """Returns the exit code, negative for a signal; None while the program runs."""
        return self._process.poll()

    @property
    def tail(self) -> str:
        """Returns the last `TAIL_BYTES` of standard error; complete after the block of `child`."""
        return self._tail.decode(errors="replace")

    async def wait(self) -> int:
        """Waits for the end of the program; returns its exit code, negative for a signal."""
        await self._ended.wait()
        return self._process.wait()

    def kill(self) -> None:
        """Sends SIGKILL to the group, only once: its number may be reused later."""
        if not self._is_killed:
            self._is_killed = True
            _signal_group(self.pid, signal.SIGKILL)

    async def read_errors(self) -> None:
        """Reads standard error to its end, so that a full pipe never blocks the child."""
        try:
            if self._stderr is None:
                return
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                total = 0
                async for part in self._stderr:
                    self._tail += part
                    del self._tail[:-TAIL_BYTES]
                    total += len(part)
                    if total > ERROR_BYTES:
                        self.kill()
        finally:
            self._silent.set()

    async def end(self, grace: float) -> None:
        """Sends SIGTERM, and SIGKILL after `grace` seconds; reads the rest of standard error."""
        if grace and self.returncode is None:
            _signal_group(self.pid, signal.SIGTERM)
            with anyio.move_on_after(grace):
                await self.wait()
        self.kill()
        with anyio.move_on_after(LINGER_SECONDS):
            await self._silent.wait()

    async def aclose(self) -> None:
        """Ends the group, waits for the program, and closes the pipes."""
        self.kill()
        await self.wait()
        for pipe in filter(None, (self._stdin, self._stdout, self._stderr)):
            await pipe.aclose()


def _started(
    program: Program, streams: tuple[int, int, int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a program with its guard; returns it and this process's end of the guard's pipe.

    Uses `subprocess`, since uvloop leaves descriptors open in a child. Raises `NotStartedError`.
    """
    reading, lifeline = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell interprets the command
            program.guarded(reading),
            bufsize=0,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=dict(program.environ),
            cwd=program.folder,
            start_new_session=True,
            pass_fds=[reading, *program.descriptors],
        )
    except OSError as error:
        os.close(lifeline)
        raise NotStartedError(program.command[0], error) from error
    finally:
        os.close(reading)
    return process, lifeline


@asynccontextmanager
async def child(program: Program, *, listens: bool = False) -> AsyncGenerator[Child]:
    """Runs the program during the block, and ends its whole group at the end of the block.

    With `listens` the program has a pipe as its standard input. Raises `NotStartedError`.
    """
    process, lifeline = _started(program, program.streams(listens=listens))
    running = Child(process)
    try:
        async with in_background(running.read_errors):
            try:
                yield running
            finally:
                with anyio.CancelScope(shield=True):
                    await running.end(program.grace)
    finally:
        running.kill()
        os.close(lifeline)
        with anyio.CancelScope(shield=True):
            await running.aclose()


async def run(
    program: Program, *, seconds: float, stdin: bytes = b"", max_bytes: int = OUTPUT_BYTES
) -> Finished:
    """Runs the program to its end, then ends its group; also when the caller is cancelled.

    `stdin` is its whole input; `max_bytes` limits its standard output. Raises `NotStartedError`,
    `LateError` after `seconds`, `FloodError` beyond `max_bytes`.
    """
    out = bytearray()
    try:
        with anyio.fail_after(seconds):
            async with (
                child(program, listens=bool(stdin)) as process,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(_take, process, out, max_bytes)
                if stdin:
                    tasks.start_soon(_say, process, stdin)
                code = await process.wait()
                process.kill()  # a process that it started would hold its output open
                tasks.cancel_scope.deadline = anyio.current_time() + LINGER_SECONDS
    except TimeoutError:
        message = f"{program.name} did not end within {seconds:g} s and was stopped."
        raise LateError(message) from None
    if len(out) > max_bytes:
        raise FloodError(f"{program.name} printed more than {max_bytes} bytes and was stopped.")
    return Finished(code, bytes(out), process.tail)


def run_blocking(
    program: Program, *, seconds: float, stdin: bytes = b"", max_bytes: int = OUTPUT_BYTES
) -> Finished:
    """Runs the program as `run` does, and blocks; the calling thread may run an event loop."""
    with ThreadPoolExecutor(1) as pool:
        call = partial(run, program, seconds=seconds, stdin=stdin, max_bytes=max_bytes)
        return pool.submit(anyio.run, call).result()


def hand_over(command: Sequence[str], *, seconds: float | None = None, silent: bool = False) -> int:
    """Runs an interactive program, such as an editor; returns its exit code.

    It shares the terminal, the group and the environment of this process, and its children, such as
    a browser, may outlive it. After `seconds` only the program itself is ended. With `silent` it
    has no terminal. Raises `NotStartedError` and `LateError`.
    """
    stream = subprocess.DEVNULL if silent else None
    try:
        return subprocess.run(  # noqa: S603 - a program of the user, no shell
            command, stdin=stream, stdout=stream, stderr=stream, timeout=seconds, check=False
        ).returncode
    except OSError as error:
        raise NotStartedError(command[0], error) from error
    except subprocess.TimeoutExpired:
        raise LateError(f"{command[0]} did not end within {seconds} s.") from None


class Worker:
    """A child with blocking pipes, for threads; call `end` last. Raises `NotStartedError`."""

    def __init__(self, program: Program) -> None:
        streams = (subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL)
        self._process, self._lifeline = _started(program, streams)
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        """Returns True while the program runs."""
        return self._process.poll() is None

    def write(self, data: bytes) -> None:
        """Writes to standard input. Raises `OSError` when the pipe is broken."""
        if stdin := self._process.stdin:
            stdin.write(data)
            stdin.flush()

    @property
    def output(self) -> int:
        """Returns the descriptor of standard output; -1 without a pipe."""
        return -1 if self._process.stdout is None else self._process.stdout.fileno()

    def kill(self) -> None:
        """Sends SIGKILL to the group; `end` must still be called."""
        if self.alive:
            _signal_group(self.pid, signal.SIGKILL)

    def end(self, grace: float) -> int:
        """Closes the pipes, waits `grace` seconds, ends the group; returns the exit code."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        _signal_group(self.pid, signal.SIGKILL)
        os.close(self._lifeline)
        return process.wait()


def _opened(stream: T | None, name: str) -> T:
    if stream is None:
        raise TypeError(f"the process was started without a pipe for its {name}")
    return stream


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS raises the second for a dead group
        os.killpg(pid, number)


async def _take(process: Child, out: bytearray, max_bytes: int) -> None:
    """Appends standard output to `out`; ends the group beyond `max_bytes`."""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for part in process.stdout:
            out += part
            if len(out) > max_bytes:
                process.kill()
                return


async def _say(process: Child, stdin: bytes) -> None:
    """Writes the whole input and closes the pipe; a broken pipe is ignored."""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdin.send(stdin)
    await process.stdin.aclose()
