"""Watches the disk of a workspace while a command runs, and kills the command before it is full.

The gateway usually keeps its state on the same disk, and few file systems limit a single folder.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from skerry.infra.process import Child
from skerry.model.errors import SandboxError

MIN_FREE_BYTES: Final = 256 << 20
"""Bytes of the disk that must stay free; half of the free bytes at the start, if that is less."""
_SECONDS: Final = 1.0
"""Seconds between two checks; most commands end before the first."""


class DiskWatch:
    """Ends a child when the disk of a folder is almost full."""

    def __init__(self, child: Child, folder: Path) -> None:
        self._child = child
        self._folder = folder
        self._min_free = min(MIN_FREE_BYTES, _free(folder) // 2)
        self._free_bytes: int | None = None
        self._timer = self._schedule()

    def _schedule(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_SECONDS, self._look)

    def _look(self) -> None:
        with suppress(OSError):  # the folder was removed: no process fills it
            free = _free(self._folder)
            if free < self._min_free:
                self._free_bytes = free
                self._child.kill()
                return
        self._timer = self._schedule()

    def end(self) -> None:
        """Stops watching."""
        self._timer.cancel()

    def check(self) -> None:
        """Raises `SandboxError` where the child was ended."""
        if self._free_bytes is not None:
            raise SandboxError(
                f"The command was killed: {self._free_bytes >> 20} MB were free on the disk of"
                f" {self._folder}, and {self._min_free >> 20} MB must stay free.",
                "Remove the files that it wrote, or free space.",
            )


@asynccontextmanager
async def watched(child: Child, folder: Path) -> AsyncGenerator[None]:
    """Watches the disk of a folder while the block runs a child.

    Raises:
        SandboxError: at the end of the block, when the child was killed.
    """
    watch = DiskWatch(child, folder)
    try:
        yield
    finally:
        watch.end()
    watch.check()


def _free(folder: Path) -> int:
    """Returns the bytes of a disk that an ordinary user can fill."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
