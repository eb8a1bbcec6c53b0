"""Delays a command of bubblewrap until its network is ready."""

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
    """Two pipes: bubblewrap writes the process id of the command, and waits for a byte."""

    def __init__(self) -> None:
        self._info_end, tell = os.pipe()
        wait, self._go = os.pipe()
        os.set_blocking(self._info_end, False)
        self.child_descriptors = [tell, wait]
        """Descriptors that bubblewrap gets."""

    @property
    def arguments(self) -> list[str]:
        """Returns the arguments of bubblewrap that name the descriptors."""
        tell, wait = self.child_descriptors
        return ["--info-fd", str(tell), "--block-fd", str(wait)]

    async def pid(self) -> int:
        """Returns the process id of the outermost process inside.

        Raises:
            SandboxError: bubblewrap did not report the process id.
        """
        self._close_child_descriptors()  # so that the end of bubblewrap is the end of the pipe
        info = b""
        try:
            with anyio.fail_after(_SECONDS):
                is_ended = False
                while not is_ended and not info.rstrip().endswith(b"}"):
                    await anyio.wait_readable(self._info_end)
                    part = os.read(self._info_end, _INFO_BYTES)
                    is_ended = not part or len(info) > _INFO_BYTES
                    info += part
            return int(json.loads(info)["child-pid"])
        except (TimeoutError, ValueError, KeyError, TypeError) as error:
            message = f"bubblewrap did not report the process id of its command: {error}."
            raise SandboxError(message, "Run `skerry sandbox test` for the cause.") from error

    def release(self) -> None:
        """Lets the command start."""
        os.write(self._go, b".")

    def close(self) -> None:
        """Closes the pipes."""
        self._close_child_descriptors()
        os.close(self._info_end)
        os.close(self._go)

    def _close_child_descriptors(self) -> None:
        while self.child_descriptors:
            os.close(self.child_descriptors.pop())


@contextmanager
def opened_gate() -> Iterator[StartGate]:
    """Opens a gate for a block."""
    gate = StartGate()
    try:
        yield gate
    finally:
        gate.close()
