"""Pipes to a child process, as streams that suit every event loop."""

import os
from typing import IO, Final

import anyio
import anyio.abc
import anyio.lowlevel

_READ: Final = 65_536


class _Pipe:
    """Our end of a pipe, without blocking."""

    def __init__(self, end: IO[bytes]) -> None:
        self._end = end
        os.set_blocking(end.fileno(), False)

    def _number(self) -> int:
        if self._end.closed:
            raise anyio.ClosedResourceError
        return self._end.fileno()

    async def aclose(self) -> None:
        """Closes our end; who waits gets `ClosedResourceError`."""
        if not self._end.closed:
            anyio.notify_closing(self._end.fileno())
            self._end.close()


class ReadPipe(_Pipe, anyio.abc.ByteReceiveStream):
    """Output of a child. Its end is an `EndOfStream`."""

    async def receive(self, max_bytes: int = _READ) -> bytes:
        """Returns output of the child."""
        await anyio.lowlevel.checkpoint()
        while True:
            number = self._number()
            try:
                data = os.read(number, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(number)
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data


class WritePipe(_Pipe, anyio.abc.ByteSendStream):
    """Input of a child. `BrokenResourceError` where it reads no more."""

    async def send(self, item: bytes) -> None:
        """Writes all of it, as far as the child reads."""
        await anyio.lowlevel.checkpoint()
        unwritten = memoryview(item)
        while unwritten:
            number = self._number()
            try:
                unwritten = unwritten[os.write(number, unwritten) :]
            except BlockingIOError:
                await anyio.wait_writable(number)
            except OSError as error:
                raise anyio.BrokenResourceError from error
