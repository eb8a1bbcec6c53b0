"""A lock on a directory with one live owner.

The lock is `flock` on a file, so the kernel releases it when the owner ends in any way. The content
of the file, pid and note of the owner, is information for people and clients only.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

_TRIES: Final = 10
_PAUSE: Final = 0.02
"""Seconds between two tries: a process that reads the owner holds the lock for a moment."""


class Owner(Struct, frozen=True):
    """A live process that holds a lock."""

    pid: int
    """Process id; 0 where the file has none."""
    note: str
    """Line that the process wrote into the file, such as its address."""


class LockedError(Exception):
    """Another live process holds the lock."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        super().__init__(f"{path} is held by process {owner.pid}")


@contextmanager
def locked(path: Path, note: str = "") -> Iterator[bool]:
    """Holds the lock file `path` for the block; yields True when the last owner released it.

    False means that the last owner was killed. `note` is one line that `owner` returns to other
    processes. Tries for 0.2 s, and blocks the thread meanwhile.

    Raises:
        LockedError: another live process holds the lock.
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _take(descriptor):
            raise LockedError(path, _read(descriptor))
        orderly = os.fstat(descriptor).st_size == 0
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n{note}\n".encode(), 0)
        yield orderly
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def owner(path: Path) -> Owner | None:
    """Returns the process that holds the lock; None for a free lock or a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


def _read(descriptor: int) -> Owner:
    pid, _, note = os.pread(descriptor, 256, 0).decode("utf-8", "replace").partition("\n")
    return Owner(int(pid) if pid.isdigit() else 0, note.strip())
