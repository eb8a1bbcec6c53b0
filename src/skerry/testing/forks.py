"""Starts `skerry` and test gateways by a fork: a real process without the cost of the imports.

A helper process has imported the modules, and forks for each start. The child has its own
environment, folder, streams, signals and exit code, and ends by a signal as any process does. Only
the start of the interpreter is not repeated; tests of it start one themselves.
"""

import gc
import json
import os
import pkgutil
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, UNIXSocketStream

SWITCH: Final = "SKERRY_FORKS"
"""Environment variable that the tests set to 1 to start by forks; else an interpreter starts."""
PROGRAMS: Final = {
    "skerry": "skerry.cli.main:main",
    "skerry.testing.gateway": "skerry.testing.gateway:main",
}
"""Programs that can be started by a fork: name of the module for `python -m`, and its function."""
_EARLY: Final = ("HASHSEED", "IOENCODING", "PATH", "UTF8", "WARNINGS")
"""Variables that an interpreter reads at its start, which a fork cannot apply."""
_DESCRIPTORS: Final = 4
"""Number of descriptors in a request: one for the response, three for the streams."""


def by_fork(program: str, environ: Mapping[str, str]) -> bool:
    """Returns whether this program can be started by a fork in this environment."""
    early = [f"PYTHON{name}" for name in _EARLY if f"PYTHON{name}" in environ]
    same = all(environ[name] == os.environ.get(name) for name in early)
    can = hasattr(os, "pidfd_open") and program in PROGRAMS
    return can and same and os.environ.get(SWITCH) == "1"


class Forked:
    """A process that was started by a fork; has the interface of `anyio.abc.Process`."""

    stdin: None = None
    stderr: None = None

    def __init__(self, answers: UNIXSocketStream, stdout: ByteReceiveStream, pid: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._answers = answers

    def send_signal(self, signal: int) -> None:
        """Sends a signal, unless the process has been awaited."""
        if self.returncode is None:
            os.kill(self.pid, signal)

    async def wait(self) -> int:
        """Waits for its end; returns the exit code, negative for a signal."""
        if self.returncode is None:
            self.returncode = int(await _line(self._answers))
            await self._answers.aclose()
        return self.returncode


async def start(
    program: str, arguments: Sequence[str], environ: Mapping[str, str], stderr: int = 2
) -> Forked:
    """Starts a program by a fork; its standard input is empty.

    Args:
        program: A key of `PROGRAMS`.
        arguments: Its command-line arguments.
        environ: Its whole environment.
        stderr: The descriptor of its standard error.
    """
    parent_end, child_end = socket.socketpair()
    null = os.open(os.devnull, os.O_RDONLY)
    with child_end:
        streams = (null, child_end.fileno(), stderr)
        answers = await _ask(program, arguments, environ, streams)
    os.close(null)
    stdout = await UNIXSocketStream.from_socket(parent_end)
    return Forked(answers, stdout, int(await _line(answers)))


async def run(
    program: str, arguments: Sequence[str], environ: Mapping[str, str], input_bytes: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a program by a fork to its end; returns its exit code and output."""
    pairs = [socket.socketpair() for _ in range(3)]
    streams = (pairs[0][1].fileno(), pairs[1][1].fileno(), pairs[2][1].fileno())
    answers = await _ask(program, arguments, environ, streams)
    for _, child_end in pairs:
        child_end.close()
    stdin, stdout, stderr = [
        await UNIXSocketStream.from_socket(parent_end) for parent_end, _ in pairs
    ]
    printed = {stdout: b"", stderr: b""}

    async def read(stream: UNIXSocketStream) -> None:
        parts = [part async for part in stream]
        printed[stream] = b"".join(parts)

    async with answers, stdin, stdout, stderr, anyio.create_task_group() as group:
        for stream in printed:
            group.start_soon(read, stream)
        with suppress(anyio.BrokenResourceError):
            await stdin.send(input_bytes)
        with suppress(OSError):
            await stdin.send_eof()
        await _line(answers)
        code = int(await _line(answers))
    words = [program, *arguments]
    return subprocess.CompletedProcess(words, code, printed[stdout], printed[stderr])


async def run_over(
    streams: tuple[int, int, int], arguments: Sequence[str], environ: Mapping[str, str], folder: str
) -> int:
    """Runs `skerry` by a fork with three descriptors as streams, in a folder; returns the code."""
    async with await _ask("skerry", arguments, environ, streams, folder) as answers:
        await _line(answers)
        return int(await _line(answers))


async def _ask(
    program: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    streams: tuple[int, int, int],
    folder: str = "",
) -> UNIXSocketStream:
    parent_end, child_end = socket.socketpair()
    request = {
        "program": program,
        "arguments": list(arguments),
        "environ": dict(environ),
        "folder": folder or str(Path.cwd()),
    }
    with child_end:
        answers = await UNIXSocketStream.from_socket(parent_end)
        socket.send_fds(_helper(), [b"."], [child_end.fileno(), *streams])
    await answers.send(json.dumps(request).encode() + b"\n")
    return answers


async def _line(answers: UNIXSocketStream) -> str:
    text = b""
    while not text.endswith(b"\n"):
        text += await answers.receive(1)
    return text.decode()


@cache
def _helper() -> socket.socket:
    """Starts the helper at the first use; it ends when its socket closes with this process."""
    parent_end, child_end = socket.socketpair()
    command = [sys.executable, "-m", "skerry.testing.forks", str(child_end.fileno())]
    with child_end:
        # Not awaited: it ends with this process.
        process = subprocess.Popen(command, pass_fds=[child_end.fileno()], stdin=subprocess.DEVNULL)  # noqa: S603 - this module
    process.returncode = 0
    return parent_end


def main() -> int:
    """Forks for each request; in the fork, returns the exit code of the program."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    programs = _imported()
    if threading.active_count() != 1 or len(list(Path("/proc/self/task").iterdir())) != 1:
        raise RuntimeError("a module started a thread; a fork would not have it")
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as ready, requests:
        ready.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd != requests.fileno():
                    _send_exit_code(running, ready, key.fd)
                    continue
                data, descriptors, _, _ = socket.recv_fds(requests, 1, _DESCRIPTORS)
                if not data:
                    return 0
                answers = socket.socket(fileno=descriptors[0])
                if (pid := os.fork()) == 0:
                    break
                for descriptor in descriptors[1:]:
                    os.close(descriptor)
                answers.sendall(b"%d\n" % pid)
                handle = os.pidfd_open(pid)
                running[handle] = (pid, answers)
                ready.register(handle, selectors.EVENT_READ)
            else:
                continue
            break
    return _become(programs, running, answers, descriptors[1:])


def _send_exit_code(
    running: dict[int, tuple[int, socket.socket]], ready: selectors.BaseSelector, handle: int
) -> None:
    """Sends the exit code of a process that has ended."""
    pid, answers = running.pop(handle)
    ready.unregister(handle)
    os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with answers, suppress(OSError):
        answers.sendall(b"%d\n" % code)


def _become(
    programs: Mapping[str, Callable[[], int]],
    running: Mapping[int, tuple[int, socket.socket]],
    answers: socket.socket,
    streams: Sequence[int],
) -> int:
    """Sets up streams, environment and folder of the fork, then runs the program in it."""
    for handle, (_, connection) in running.items():
        os.close(handle)
        connection.close()
    with answers, answers.makefile("rb") as lines:
        request = json.loads(lines.readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _open_streams()
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    os.chdir(request["folder"])
    sys.argv = [request["program"], *request["arguments"]]
    sys.orig_argv = [sys.executable, "-m", request["program"], *request["arguments"]]
    return programs[request["program"]]()


def _open_streams() -> None:
    """Opens the three streams again, with the buffering of a process without a terminal."""
    for name, number, mode, errors, buffering in (
        ("stdin", 0, "r", "surrogateescape", -1),
        ("stdout", 1, "w", "surrogateescape", -1),
        ("stderr", 2, "w", "backslashreplace", 1),
    ):
        stream = open(number, mode, buffering, "utf-8", errors, closefd=False)  # noqa: SIM115 - open until the process ends
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _imported() -> dict[str, Callable[[], int]]:
    """Imports the modules that the programs use at once or later; returns their functions."""
    commands = import_module("skerry.cli")
    for iter_module in pkgutil.iter_modules(commands.__path__, "skerry.cli."):
        import_module(iter_module.name)
    import_module("skerry.app.build")
    for load in import_module("skerry.sdk.features").registered().slots.values():
        load()
    functions = {}
    for program, reference in PROGRAMS.items():
        module, _, name = reference.partition(":")
        functions[program] = getattr(import_module(module), name)
    return functions


if __name__ == "__main__":
    sys.exit(main())
