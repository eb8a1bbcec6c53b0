"""Runs one operation on a relayer's memory and kills itself at a named point.

`python -m tests.support.relayer_program FOLDER OPERATION POINT DATABASE`; an empty DATABASE is
SQLite.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio

from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.folders import Folders
from skerry_relayer.keys.registry import Registry
from skerry_relayer.memories import Memories
from skerry_relayer.ports import Caller, Item
from tests.support.embedding import Words
from tests.support.relayer_memory import Delegate, ended, private_key, rewrapped

TEXTS: Final = ("The ferry to Bastia leaves at six.", "Otto the cat eats tuna.")
MANUAL: Final = b"sealed by the client"
VECTOR: Final = [1.0, 0.5] + [0.0] * 1534


async def remember(memories: Memories, caller: Caller) -> None:
    """Accepts two texts in one request and waits for their jobs."""
    for job in await memories.remember(caller, [Item(text) for text in TEXTS]):
        await ended(memories, caller, job.id)


async def manual(memories: Memories, caller: Caller) -> None:
    """Stores a blob of the client."""
    await memories.remember_manual(caller, MANUAL, VECTOR, "default")


async def forget(memories: Memories, caller: Caller) -> None:
    """Forgets all."""
    await memories.forget_namespace(caller, "default")


async def restore(memories: Memories, caller: Caller) -> None:
    """Restores all."""
    await memories.restore(caller, "default", 100)


OPERATIONS: Final[dict[str, Callable[[Memories, Caller], Awaitable[None]]]] = {
    "remember": remember,
    "manual": manual,
    "forget": forget,
    "restore": restore,
}


def killing(point: str) -> Callable[[str], None]:
    """Returns a function that kills this process, and nothing else, at the point."""

    def reach(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return reach


async def main(root: Path, operation: str, point: str, database: str) -> None:
    """Runs the operation as the delegate with seed 1 of the first account."""
    with Registry(Folders(root).keys) as registry:
        caller = Delegate(private_key(1), registry.accounts()[0], registry.package_id).caller()
    if operation == "rewrap":
        await rewrapped(root, killing(point))
        return
    options = MemoryOptions(root, reach=killing(point))
    if database:
        options = MemoryOptions(root, database=database, embedder=Words(), reach=killing(point))
    async with opened(options) as running:
        await OPERATIONS[operation](running.memories, caller)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4])
