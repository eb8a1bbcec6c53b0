"""Opens files beneath a directory by descriptor: no link, no way out, no race.

Every component is opened relative to its parent's descriptor with `O_NOFOLLOW`, so a component that
is, or becomes, a symbolic link is refused instead of followed. The opened descriptor is then
checked: a plain file with one name. A second hard link could be a file of someone else.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class EscapeError(Exception):
    """A path leaves its directory, or is not the plain file it must be."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path!r}: {reason}")


@dataclass(frozen=True, slots=True)
class Beneath:
    """A directory beneath which files may be opened."""

    root: Path

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open the plain file `path`, relative to the root, for reading.

        Raises:
            EscapeError: the path is absolute, climbs out, meets a link, or is no plain file with
                one name.
            OSError: it does not exist or may not be read.
        """
        parts = _parts(path)
        with ExitStack() as opened:
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, folder)
            for part in parts[:-1]:
                folder = _open_at(folder, part, _DIRECTORY, path)
                opened.callback(os.close, folder)
            descriptor = _open_at(folder, parts[-1], _FILE, path)
            opened.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise EscapeError(path, "it is not a plain file")
            if status.st_nlink != 1:
                raise EscapeError(path, "it has more than one name (hard link)")
            yield opened.enter_context(os.fdopen(descriptor, "rb", closefd=False))


def _parts(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise EscapeError(path.replace("\0", "\\0"), "it has a zero byte")
    pure = PurePosixPath(path)
    if pure.is_absolute():
        raise EscapeError(path, "it is absolute")
    if not pure.parts or ".." in pure.parts:
        raise EscapeError(path, "it climbs out or is empty")
    return pure.parts


def _open_at(folder: int, name: str, flags: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        link = error.errno == errno.ELOOP
        # O_DIRECTORY with O_NOFOLLOW on a link is ENOTDIR on Linux.
        if error.errno == errno.ENOTDIR:
            link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        if link:
            raise EscapeError(path, "it goes through a symbolic link") from error
        raise
