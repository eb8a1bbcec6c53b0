"""Writes files atomically, and makes private directories."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replaces `path` with `data` atomically: a crash at any moment leaves the old or the new file.

    Missing directories are created with mode 0700. A link is replaced, not followed. On an error
    the old file is unchanged. Syncs the file and its directory.

    Args:
        path: The file.
        data: The whole new content.
        mode: Permissions of the new file, independent of the umask.

    Raises:
        OSError: the file could not be written.
    """
    make_private(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(temporary, _CREATE, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # the umask may have removed bits
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    descriptor = os.open(path.parent, _DIRECTORY)
    try:
        os.fsync(descriptor)  # the new name lasts through a loss of power
    finally:
        os.close(descriptor)


def make_private(directory: Path) -> None:
    """Creates the directory and its missing parents, each with mode 0700.

    `Path.mkdir` with `parents` would apply the mode to the last directory only.

    Raises:
        OSError: a directory cannot be created.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Holds an exclusive lock on `directory` for the block. Blocks the thread until it is free.

    Protects a read, change and write of a small file. The lock ends with the process.
    """
    descriptor = os.open(directory, _DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
