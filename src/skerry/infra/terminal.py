"""Terminal for a program: a pseudo-terminal, whose other end is read and written here."""

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
    """A pseudo-terminal for one program. `program_end` is handed to it; `aclose` it.

    The end of the program is an `EndOfStream`. Text that is sent appears in its output as well, as
    long as the program leaves the echo on.
    """

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self._ours, self.program_end = os.openpty()
        os.set_blocking(self._ours, False)
        self._is_closed = False
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        """Sets the size; the program gets SIGWINCH where the terminal controls it."""
        if not self._is_closed:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def hand_over(self) -> None:
        """Closes the program's end here, once the program has it: so its end can be noticed."""
        if self.program_end >= 0:
            os.close(self.program_end)
            self.program_end = -1

    async def receive(self, max_bytes: int = _READ) -> bytes:
        """Returns output of the program."""
        while True:
            self._check_open()
            try:
                data = os.read(self._ours, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._ours)
                continue
            except OSError as error:
                if error.errno == errno.EIO:  # Linux: nobody has the other end any more
                    raise anyio.EndOfStream from None
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            await anyio.lowlevel.checkpoint()
            return data

    async def send(self, item: bytes) -> None:
        """Writes to the program, as far as it reads."""
        unwritten = memoryview(item)
        while unwritten:
            self._check_open()
            try:
                unwritten = unwritten[os.write(self._ours, unwritten) :]
            except BlockingIOError:
                await anyio.wait_writable(self._ours)
            except OSError as error:
                raise anyio.BrokenResourceError from error
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        """Sends the character that ends the input at the start of a line: Ctrl-D."""
        await self.send(b"\x04")

    async def aclose(self) -> None:
        """Closes both ends; who waits gets `ClosedResourceError`."""
        self.hand_over()
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._ours)
            os.close(self._ours)

    def _check_open(self) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
