"""A lock on a directory: one live owner, taken over from a dead one.

The lock is `flock` on a file, so the kernel frees it when the owner dies, however it dies. The file
holds the owner's process id for people and for error messages; it decides nothing.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedError(Exception):
    """Another live process holds the lock."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.pid = pid
        super().__init__(f"{path} is held by process {pid}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock `path` for the block.

    Raises:
        LockedError: another live process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(path, _owner(descriptor)) from error
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def owner(path: Path) -> int | None:
    """Return the process id that holds the lock now, or None when nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _owner(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else 0
