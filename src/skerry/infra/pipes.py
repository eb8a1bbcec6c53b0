"""Pipes to a child process as streams, for asyncio and uvloop alike."""

import os
from typing import IO, Final

import anyio
import anyio.abc
import anyio.lowlevel

_READ: Final = 65_536


class _Pipe:
    """Non-blocking end of a pipe to a child."""

    def __init__(self, end: IO[bytes]) -> None:
        self._end = end
        os.set_blocking(end.fileno(), False)

    def _number(self) -> int:
        if self._end.closed:
            raise anyio.ClosedResourceError
        return self._end.fileno()

    async def aclose(self) -> None:
        """Closes the pipe; a pending `receive` or `send` raises `ClosedResourceError`."""
        if not self._end.closed:
            anyio.notify_closing(self._end.fileno())
            self._end.close()


class ReadPipe(_Pipe, anyio.abc.ByteReceiveStream):
    """Output of a child. `receive` raises `EndOfStream` at its end."""

    async def receive(self, max_bytes: int = _READ) -> bytes:
        """Returns the next bytes of output, at most `max_bytes`."""
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
    """Input of a child. `send` raises `BrokenResourceError` when the child has closed it."""

    async def send(self, item: bytes) -> None:
        """Writes all of `item`; waits while the pipe is full."""
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
