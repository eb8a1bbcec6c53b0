"""Child processes: each leads a group of its own, which ends as a whole.

`run` waits for the end of a program, `child` keeps one for a block, `Worker` one for threads. Each
group also ends when this process dies. A child gets the environment that the caller lists alone. A
process with a session of its own leaves the group: only a namespace (a sandbox) or a scope
(`child_scope`) holds such a one.
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
from skerry.infra.supervise import beside

T = TypeVar("T")
PYTHON: Final = re.compile("PATH|HOME|LANG|PYTHONPATH|VIRTUAL_ENV|LD_LIBRARY_PATH")
"""Variables that a Python program of ours needs; no key is among them."""
OUTPUT_BYTES: Final = 1_000_000
TAIL_BYTES: Final = 16_384
"""Bytes of standard error that are kept, the last ones."""
ERROR_BYTES: Final = 64 * 1024 * 1024
"""Bytes of standard error after which the group is ended."""
LINGER_SECONDS: Final = 1.0
"""Seconds to wait for the output of a group that was ended; who left the group may hold it open."""
LIFELINE: Final = "@lifeline@"
"""Word of a command that is replaced by the descriptor of the guard, which the program closes."""


class ProcessError(Exception):
    """A child did not do what it was started for."""


class NotStartedError(ProcessError, OSError):
    """The program is not there, or may not be run; `reason` is the one of the system."""

    def __init__(self, program: str, error: OSError) -> None:
        self.reason = error.strerror or str(error)
        super().__init__(f"{program} cannot be started: {self.reason}.")


class LateError(ProcessError):
    """The program did not end in time; its group was ended."""


class FloodError(ProcessError):
    """The program printed too much; its group was ended."""


class Program(Struct, frozen=True):
    """A program to start."""

    command: Sequence[str]
    """The program, looked up in the `PATH` of `environ`, and its arguments."""
    environ: Mapping[str, str]
    """Its whole environment."""
    folder: Path | None = None
    """Folder in which it starts; None is ours."""
    grace: float = 0.0
    """Seconds that its group has between SIGTERM and SIGKILL; 0 is SIGKILL at once."""
    memory_bytes: int | None = None
    """Limit on the address space of each of its processes."""
    file_bytes: int | None = None
    """The same on a file that it writes."""
    descriptors: Sequence[int] = ()
    """Descriptors of ours that it gets, under their numbers."""
    terminal: int | None = None
    """Descriptor of a terminal that is its standard input, output and error."""
    merges: bool = False
    """Sends its standard error to its standard output."""
    filters: bool = False
    """True for a program without a guard: it ends with its input, or by itself when we die."""

    @property
    def name(self) -> str:
        """Returns its name and first argument, for messages."""
        return " ".join((Path(self.command[0]).name, *self.command[1:2]))

    def streams(self, *, listens: bool) -> tuple[int, int, int]:
        """Returns its standard streams."""
        if self.terminal is not None:
            return self.terminal, self.terminal, self.terminal
        errors = subprocess.STDOUT if self.merges else subprocess.PIPE
        return subprocess.PIPE if listens else subprocess.DEVNULL, subprocess.PIPE, errors

    def guarded(self, lifeline: int) -> list[str]:
        """Returns the command with its guard; `lifeline` is the descriptor of a pipe's end.

        Raises:
            OSError: there is no such program, or it may not be run: the guard could not tell us.
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
    """Negative where a signal ended it."""
    out: bytes
    err: str
    """End of standard error."""


def allowed(environ: Mapping[str, str], names: re.Pattern[str] = PYTHON) -> dict[str, str]:
    """Returns the variables whose whole name matches the regular expression `names`."""
    return {name: value for name, value in environ.items() if names.fullmatch(name)}


def module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module of ours; the current folder is not searched."""
    return [sys.executable, "-P", "-m", name, *arguments]


def starter(
    environ: Mapping[str, str],
) -> Callable[[Sequence[str], Mapping[str, str]], AbstractAsyncContextManager["Child"]]:
    """Returns a function of a command and further variables that runs a Python program of ours."""
    base = allowed(environ)
    return lambda command, more: child(Program(command, base | dict(more)), listens=True)


class Child:
    """A child of `child`: its pipes, and what it writes to standard error."""

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
        """Returns the pipe to it; only one that `listens` has it."""
        return _opened(self._stdin, "input")

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns the pipe of its output."""
        return _opened(self._stdout, "output")

    @property
    def returncode(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def tail(self) -> str:
        """Returns the end of its standard error; complete after the block."""
        return self._tail.decode(errors="replace")

    async def wait(self) -> int:
        """Waits until it has ended; returns its exit code."""
        await self._ended.wait()
        return self._process.wait()

    def kill(self) -> None:
        """Ends its group, once: later the number may be another's."""
        if not self._is_killed:
            self._is_killed = True
            _signal_group(self.pid, signal.SIGKILL)

    async def read_errors(self) -> None:
        """Reads standard error until its end, so that a child never waits for a reader."""
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
        """Asks the group to end, and ends it after `grace` seconds; reads its last words."""
        if grace and self.returncode is None:
            _signal_group(self.pid, signal.SIGTERM)
            with anyio.move_on_after(grace):
                await self.wait()
        self.kill()
        with anyio.move_on_after(LINGER_SECONDS):
            await self._silent.wait()

    async def aclose(self) -> None:
        """Ends its group, waits until it has ended, and closes the pipes."""
        self.kill()
        await self.wait()
        for pipe in filter(None, (self._stdin, self._stdout, self._stderr)):
            await pipe.aclose()


def _started(
    program: Program, streams: tuple[int, int, int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a program behind its guard; returns our end of the guard's pipe too.

    Not by the event loop: uvloop leaves descriptors open in a child. Raises `NotStartedError`.
    """
    reading, lifeline = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell reads the command
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
    """Runs the program for the block, whose end ends its whole group.

    One that `listens` has a pipe of ours as its standard input. Raises `NotStartedError`.
    """
    process, lifeline = _started(program, program.streams(listens=listens))
    running = Child(process)
    try:
        async with beside(running.read_errors):
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
    program: Program, *, seconds: float, stdin: bytes = b"", most: int = OUTPUT_BYTES
) -> Finished:
    """Runs the program until it ends, and ends what it left behind; also when it is cancelled.

    `seconds` and `most` limit its time and the bytes of its standard output; `stdin` is its input.
    Raises `NotStartedError`, `LateError` after `seconds`, `FloodError` beyond `most` bytes.
    """
    out = bytearray()
    try:
        with anyio.fail_after(seconds):
            async with (
                child(program, listens=bool(stdin)) as process,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(_take, process, out, most)
                if stdin:
                    tasks.start_soon(_say, process, stdin)
                code = await process.wait()
                process.kill()  # what it left behind would hold its output open
                tasks.cancel_scope.deadline = anyio.current_time() + LINGER_SECONDS
    except TimeoutError:
        message = f"{program.name} did not end within {seconds:g} s and was stopped."
        raise LateError(message) from None
    if len(out) > most:
        raise FloodError(f"{program.name} printed more than {most} characters and was stopped.")
    return Finished(code, bytes(out), process.tail)


def run_blocking(
    program: Program, *, seconds: float, stdin: bytes = b"", most: int = OUTPUT_BYTES
) -> Finished:
    """Runs the program as `run` does, for a caller that blocks; a loop may run in its thread."""
    with ThreadPoolExecutor(1) as pool:
        call = partial(run, program, seconds=seconds, stdin=stdin, most=most)
        return pool.submit(anyio.run, call).result()


def hand_over(command: Sequence[str], *, seconds: float | None = None, silent: bool = False) -> int:
    """Runs a program that belongs to the person, such as an editor; returns its exit code.

    It has the terminal, our group and our environment, and what it starts runs on after it: a
    browser. Later than `seconds` it alone is ended. `silent` takes its terminal. Raises as `run`.
    """
    stream = subprocess.DEVNULL if silent else None
    try:
        return subprocess.run(  # noqa: S603 - the person's own program, no shell
            command, stdin=stream, stdout=stream, stderr=stream, timeout=seconds, check=False
        ).returncode
    except OSError as error:
        raise NotStartedError(command[0], error) from error
    except subprocess.TimeoutExpired:
        raise LateError(f"{command[0]} did not end within {seconds} s.") from None


class Worker:
    """A child for threads, whose pipes block. `end` it."""

    def __init__(self, program: Program) -> None:
        streams = (subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL)
        self._process, self._lifeline = _started(program, streams)
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        """Returns whether it runs."""
        return self._process.poll() is None

    def write(self, data: bytes) -> None:
        """Writes to its standard input. Raises `OSError` where it does not read."""
        if stdin := self._process.stdin:
            stdin.write(data)
            stdin.flush()

    @property
    def output(self) -> int:
        """Returns the descriptor of its standard output."""
        return -1 if self._process.stdout is None else self._process.stdout.fileno()

    def kill(self) -> None:
        """Ends its group; `end` it nevertheless."""
        if self.alive:
            _signal_group(self.pid, signal.SIGKILL)

    def end(self, grace: float) -> int:
        """Ends it, after `grace` seconds in which it may end with its input; returns its code."""
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


async def _take(process: Child, out: bytearray, most: int) -> None:
    """Reads what it prints; ends it where that is too much."""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for part in process.stdout:
            out += part
            if len(out) > most:
                process.kill()
                return


async def _say(process: Child, stdin: bytes) -> None:
    """Writes its input, as far as it reads it."""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdin.send(stdin)
    await process.stdin.aclose()
