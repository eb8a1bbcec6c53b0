"""Starts `skerry` and test gateways by a fork: a real process without what importing costs it.

A helper process has the modules imported, and forks for each start. What it starts has its own
environment, folder, streams, signals and exit code, and dies by a signal as any process does. Only
how an interpreter starts is not repeated, so tests of that start one themselves.
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
"""Set to 1 where starts are forks: by the tests. Elsewhere each starts an interpreter."""
PROGRAMS: Final = {
    "skerry": "skerry.cli.main:main",
    "skerry.testing.gateway": "skerry.testing.gateway:main",
}
"""Programs that can be started this way: the module as `python -m` names it, and the function it
calls."""
_EARLY: Final = ("HASHSEED", "IOENCODING", "PATH", "UTF8", "WARNINGS")
"""Variables that an interpreter reads when it starts, which a fork cannot apply."""
_DESCRIPTORS: Final = 4
"""Number of descriptors in a request: one for the answer, and three for the streams."""


def by_fork(program: str, environ: Mapping[str, str]) -> bool:
    """Returns whether a fork may replace the start of this program."""
    early = [f"PYTHON{name}" for name in _EARLY if f"PYTHON{name}" in environ]
    same = all(environ[name] == os.environ.get(name) for name in early)
    can = hasattr(os, "pidfd_open") and program in PROGRAMS
    return can and same and os.environ.get(SWITCH) == "1"


class Forked:
    """A process that was started by a fork; used as `anyio.abc.Process` is."""

    stdin: None = None
    stderr: None = None

    def __init__(self, answers: UNIXSocketStream, stdout: ByteReceiveStream, pid: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._answers = answers

    def send_signal(self, signal: int) -> None:
        """Sends it a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, signal)

    async def wait(self) -> int:
        """Waits until it has ended; returns its exit code, negative for a signal."""
        if self.returncode is None:
            self.returncode = int(await _line(self._answers))
            await self._answers.aclose()
        return self.returncode


async def start(
    program: str, arguments: Sequence[str], environ: Mapping[str, str], stderr: int = 2
) -> Forked:
    """Starts a program by a fork; it reads nothing.

    Args:
        program: A key of `PROGRAMS`.
        arguments: What follows the program's name.
        environ: Its whole environment.
        stderr: The descriptor to which it writes errors.
    """
    ours, theirs = socket.socketpair()
    nothing = os.open(os.devnull, os.O_RDONLY)
    with theirs:
        streams = (nothing, theirs.fileno(), stderr)
        answers = await _ask(program, arguments, environ, streams)
    os.close(nothing)
    stdout = await UNIXSocketStream.from_socket(ours)
    return Forked(answers, stdout, int(await _line(answers)))


async def run(
    program: str, arguments: Sequence[str], environ: Mapping[str, str], input_bytes: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a program by a fork until it ends, and returns what it printed."""
    pairs = [socket.socketpair() for _ in range(3)]
    streams = (pairs[0][1].fileno(), pairs[1][1].fileno(), pairs[2][1].fileno())
    answers = await _ask(program, arguments, environ, streams)
    for _, theirs in pairs:
        theirs.close()
    stdin, stdout, stderr = [await UNIXSocketStream.from_socket(ours) for ours, _ in pairs]
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
    """Runs `skerry` by a fork over three descriptors, in a folder; returns its exit code."""
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
    ours, theirs = socket.socketpair()
    request = {
        "program": program,
        "arguments": list(arguments),
        "environ": dict(environ),
        "folder": folder or str(Path.cwd()),
    }
    with theirs:
        answers = await UNIXSocketStream.from_socket(ours)
        socket.send_fds(_helper(), [b"."], [theirs.fileno(), *streams])
    await answers.send(json.dumps(request).encode() + b"\n")
    return answers


async def _line(answers: UNIXSocketStream) -> str:
    text = b""
    while not text.endswith(b"\n"):
        text += await answers.receive(1)
    return text.decode()


@cache
def _helper() -> socket.socket:
    """Starts the helper on first use; it ends when this process does, as its socket closes."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "skerry.testing.forks", str(theirs.fileno())]
    with theirs:
        # Not waited for: it ends with us.
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)  # noqa: S603 - this module
    process.returncode = 0
    return ours


def main() -> int:
    """Fork for each request; in the fork, return what the program returns."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    programs = _imported()
    if threading.active_count() != 1 or len(list(Path("/proc/self/task").iterdir())) != 1:
        raise RuntimeError("a module started a thread, which no fork has")
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as ready, requests:
        ready.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd != requests.fileno():
                    _tell(running, ready, key.fd)
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


def _tell(
    running: dict[int, tuple[int, socket.socket]], ready: selectors.BaseSelector, handle: int
) -> None:
    """Answers with the exit code of a process that has ended."""
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
    """Gives the fork what a process of its own has, then runs the program in it."""
    for handle, (_, other) in running.items():
        os.close(handle)
        other.close()
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
    """Opens the three streams anew, buffered as a process that is not at a terminal has them."""
    for name, number, mode, errors, buffering in (
        ("stdin", 0, "r", "surrogateescape", -1),
        ("stdout", 1, "w", "surrogateescape", -1),
        ("stderr", 2, "w", "backslashreplace", 1),
    ):
        stream = open(number, mode, buffering, "utf-8", errors, closefd=False)  # noqa: SIM115 - it lives as long as the process
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _imported() -> dict[str, Callable[[], int]]:
    """Imports what the programs import, now or when they are asked for something."""
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
