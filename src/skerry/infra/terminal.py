"""Pseudo-terminal for a child program, read and written as a byte stream."""

import errno
import fcntl
import os
import struct
import termios
from typing import Final

import anyio
import anyio.abc

_READ: Final = 65_536


class PseudoTerminal(anyio.abc.ByteStream):
    """A pseudo-terminal for one program. Pass `program_end` to the child; call `aclose` at the end.

    `receive` raises `EndOfStream` after the program has ended. Sent text also appears in the output
    while the echo of the terminal is on.
    """

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self._own_end, self.program_end = os.openpty()
        os.set_blocking(self._own_end, False)
        self._is_closed = False
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        """Sets the size; the program gets SIGWINCH when this is its controlling terminal."""
        if not self._is_closed:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._own_end, termios.TIOCSWINSZ, size)

    def hand_over(self) -> None:
        """Closes this process's copy of `program_end`. Call it after the program was started.

        Without it `receive` would not see the end of the program.
        """
        if self.program_end >= 0:
            os.close(self.program_end)
            self.program_end = -1

    async def receive(self, max_bytes: int = _READ) -> bytes:
        """Returns the next bytes of output, at most `max_bytes`."""
        while True:
            self._check_open()
            try:
                data = os.read(self._own_end, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._own_end)
                continue
            except OSError as error:
                if error.errno == errno.EIO:  # Linux: the other end is closed everywhere
                    raise anyio.EndOfStream from None
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            await anyio.lowlevel.checkpoint()
            return data

    async def send(self, item: bytes) -> None:
        """Writes all of `item`; waits while the program does not read."""
        unwritten = memoryview(item)
        while unwritten:
            self._check_open()
            try:
                unwritten = unwritten[os.write(self._own_end, unwritten) :]
            except BlockingIOError:
                await anyio.wait_writable(self._own_end)
            except OSError as error:
                raise anyio.BrokenResourceError from error
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        """Sends the character that ends the input at the start of a line: Ctrl-D."""
        await self.send(b"\x04")

    async def aclose(self) -> None:
        """Closes both ends; a pending `receive` or `send` raises `ClosedResourceError`."""
        self.hand_over()
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._own_end)
            os.close(self._own_end)

    def _check_open(self) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
