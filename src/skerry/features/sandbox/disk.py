"""Watches the disk of a workspace while a command runs, and ends the command before it is full.

The gateway keeps its state on the same disk as a rule, and no quota holds for a folder everywhere.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from skerry.infra.process import Child
from skerry.model.errors import SandboxError

LEAST_FREE: Final = 256 << 20
"""Bytes that a command has to leave free; half of what was free, where that is less."""
_SECONDS: Final = 1.0
"""Seconds between two looks; most commands end before the first."""


class DiskWatch:
    """Ends a child when too little is left of the disk of a folder."""

    def __init__(self, child: Child, folder: Path) -> None:
        self._child = child
        self._folder = folder
        self._least = min(LEAST_FREE, _free(folder) // 2)
        self._left: int | None = None
        self._timer = self._later()

    def _later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_SECONDS, self._look)

    def _look(self) -> None:
        with suppress(OSError):  # the folder is gone: nothing fills it
            free = _free(self._folder)
            if free < self._least:
                self._left = free
                self._child.kill()
                return
        self._timer = self._later()

    def end(self) -> None:
        """Looks no more."""
        self._timer.cancel()

    def check(self) -> None:
        """Raises `SandboxError` where the child was ended."""
        if self._left is not None:
            raise SandboxError(
                f"The command was ended: {self._left >> 20} MB were left of the disk of"
                f" {self._folder}, and it has to leave {self._least >> 20} MB.",
                "Remove what it wrote, or free space.",
            )


@asynccontextmanager
async def watched(child: Child, folder: Path) -> AsyncGenerator[None]:
    """Watches the disk of a folder for a block, which uses up a child.

    Raises:
        SandboxError: at the end of the block, the child was ended.
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
