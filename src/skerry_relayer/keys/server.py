"""Serves the key server on a Unix socket, until its standard input ends or it gets a signal."""

import ctypes
import os
import resource
import signal
import sqlite3
import stat
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry_relayer.keys.framing import FrameError, KeyFailure, read_request, receive, send
from skerry_relayer.keys.judge import Judge
from skerry_relayer.keys.registry import Registry

SOCKET: Final = "server.sock"
READY: Final = "ready\n"
"""Line on standard output once the socket accepts connections."""
_PRIVATE: Final = 0o600
_PATH_BYTES: Final = 100
"""Maximum path length of a Unix socket, a little less than the limit of the system."""


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yields a path short enough for a socket; a long one goes over a descriptor of its folder."""
    if len(os.fsencode(path)) < _PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@asynccontextmanager
async def listening(path: Path) -> AsyncGenerator[anyio.abc.SocketListener]:
    """Listens on a socket of the present user only; removes the socket of a dead server.

    Raises:
        OSError: another server listens on the socket.
    """
    with short_path(path) as name:
        if await _is_served(name):
            raise OSError(f"A key server already listens on {path}. Stop it first.")
        _remove_socket(path)
        async with await anyio.create_unix_listener(name, mode=_PRIVATE) as listener:
            yield listener


async def _is_served(name: str) -> bool:
    try:
        async with await anyio.connect_unix(name):
            return True
    except OSError:
        return False


def _remove_socket(path: Path) -> None:
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()


async def answer_all(judge: Judge, stream: anyio.abc.SocketStream) -> None:
    """Answers the requests of one connection in their order."""
    async with stream:
        reader = BufferedByteReceiveStream(stream)
        try:
            while True:
                await send(stream, judge.answer(await receive(reader, read_request)))
        except FrameError as error:
            await send(stream, KeyFailure(400, str(error)))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            return


async def _serve(folder: Path, path: Path, *, by_parent: bool) -> None:
    with Registry(folder) as registry:
        judge = Judge(registry)
        async with listening(path) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(_end_by_signal, tasks.cancel_scope)
            if by_parent:
                tasks.start_soon(_end_with_input, tasks.cancel_scope)
            sys.stdout.write(READY)
            sys.stdout.flush()

            async def answer(stream: anyio.abc.SocketStream) -> None:
                await answer_all(judge, stream)

            await listener.serve(answer)


async def _end_by_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def _end_with_input(scope: anyio.CancelScope) -> None:
    """Ends the server at the end of standard input, which the relayer keeps open."""
    while True:
        await anyio.wait_readable(0)
        if not os.read(0, 4096):
            scope.cancel()
            return


def close_memory() -> None:
    """Prevents other processes from reading the memory of this process, and core dumps of it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def run(folder: Path, path: Path, *, by_parent: bool = False) -> int:
    """Serves the registry of a folder on a socket; returns the exit code."""
    close_memory()
    try:
        anyio.run(lambda: _serve(folder, path, by_parent=by_parent))
    except (OSError, ValueError, sqlite3.Error) as error:
        sys.stderr.write(f"error: the key server cannot serve {folder}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2]), by_parent=True))
