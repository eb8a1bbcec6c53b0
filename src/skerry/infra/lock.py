"""A lock on a directory: one live owner, taken over from a dead one.

The lock is `flock` on a file, so the kernel frees it when the owner dies, however it dies. The file
says who the owner is, for people and for clients that look for it; it decides nothing.
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
"""Seconds between two tries: a process that looks for the owner holds the lock for a moment."""


class Owner(Struct, frozen=True):
    """A live process that holds a lock, and what it wrote about itself."""

    pid: int
    note: str


class LockedError(Exception):
    """Another live process holds the lock."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        super().__init__(f"{path} is held by process {owner.pid}")


@contextmanager
def locked(path: Path, note: str = "") -> Iterator[bool]:
    """Holds the lock `path` for the block; `note` is one line that `owner` gives to others.

    Gives whether the owner before released it in order; one that is killed does not.

    Raises:
        LockedError: another live process holds it.
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
    """Returns the process that holds the lock now; None without one."""
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
