"""Holds a command of bubblewrap back until its network is ready."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from skerry.model.errors import SandboxError

_SECONDS: Final = 20.0
_INFO_BYTES: Final = 4096


class StartGate:
    """Two pipes: bubblewrap tells the process id of the command, and waits for a byte."""

    def __init__(self) -> None:
        self._told, tell = os.pipe()
        wait, self._go = os.pipe()
        os.set_blocking(self._told, False)
        self.theirs = [tell, wait]
        """Descriptors that bubblewrap gets."""

    @property
    def arguments(self) -> list[str]:
        """Returns the arguments of bubblewrap that name them."""
        tell, wait = self.theirs
        return ["--info-fd", str(tell), "--block-fd", str(wait)]

    async def pid(self) -> int:
        """Returns the process id of the outermost process inside.

        Raises:
            SandboxError: bubblewrap did not tell it.
        """
        self._close_theirs()  # so that the end of bubblewrap is the end of the pipe
        told = b""
        try:
            with anyio.fail_after(_SECONDS):
                is_ended = False
                while not is_ended and not told.rstrip().endswith(b"}"):
                    await anyio.wait_readable(self._told)
                    part = os.read(self._told, _INFO_BYTES)
                    is_ended = not part or len(told) > _INFO_BYTES
                    told += part
            return int(json.loads(told)["child-pid"])
        except (TimeoutError, ValueError, KeyError, TypeError) as error:
            message = f"bubblewrap did not tell the process of its command: {error}."
            raise SandboxError(message, "`skerry sandbox test` shows why.") from error

    def release(self) -> None:
        """Lets the command start."""
        os.write(self._go, b".")

    def close(self) -> None:
        """Closes the pipes."""
        self._close_theirs()
        os.close(self._told)
        os.close(self._go)

    def _close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())


@contextmanager
def opened_gate() -> Iterator[StartGate]:
    """Gives a gate for a block."""
    gate = StartGate()
    try:
        yield gate
    finally:
        gate.close()
