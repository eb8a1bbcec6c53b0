"""Tells whether folders were left alone, without looking into them: inotify of Linux.

The kernel puts a note on a queue before a write returns, so that what was written before a look is
never missed. It takes no thread and no time while nothing happens. Elsewhere, on file systems of
other machines, and where the kernel has no watch left, folders have to be looked into.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

_EVENT: Final = struct.Struct("iIII")
_READ: Final = 1 << 16
_MODIFY, _ATTRIB, _FROM, _TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_SELF: Final = 0x400 | 0x800
"""Event of its own deletion or move."""
_DIRECTORY: Final = 0x40000000
_ONLY: Final = 0x01000000 | 0x02000000
"""Directories, and no links."""
_MASK: Final = _MODIFY | _ATTRIB | _FROM | _TO | _CREATE | _DELETE | _SELF | _ONLY


class Watch:
    """Watches folders, not what is beneath them. For one thread at a time."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._folders: frozenset[str] = frozenset()
        self._names: dict[int, str] = {}
        """Folders by the number that the kernel gave each."""

    @property
    def covers(self) -> bool:
        """Returns whether it watches anything."""
        return self._file is not None

    def cover(self, folders: Iterable[str]) -> bool:
        """Watches these folders and no others; returns whether it was not so before.

        Then what changed until now is not known. Where it cannot be done, nothing is watched.
        """
        paths = frozenset(folders)
        if paths == self._folders and self.covers:
            return False
        self.close()
        if sys.platform != "linux":
            return False
        libc = _libc()
        file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if file < 0:
            return False
        names: dict[int, str] = {}
        for folder in paths:
            number = libc.inotify_add_watch(file, os.fsencode(folder), _MASK)
            if number < 0:
                os.close(file)
                return False
            names[number] = folder
        self._file, self._folders, self._names = file, paths, names
        return True

    def changed(self) -> set[str] | None:
        """Returns the Markdown files that changed since it was asked, as the system names them.

        None where it watches nothing, where folders changed, or too much for the kernel to name.
        """
        if self._file is None:
            return None
        names: set[str] = set()
        complete = True
        with suppress(BlockingIOError):
            while data := os.read(self._file, _READ):
                for number, mask, name in _events(data):
                    if not name or mask & _DIRECTORY:
                        complete = False
                    elif name.lower().endswith(b".md"):
                        names.add(f"{self._names.get(number, '')}/{os.fsdecode(name)}")
        return names if complete else None

    def is_quiet(self) -> bool:
        """Returns whether it watches, and no Markdown file or folder changed since it was asked."""
        return self.changed() == set()

    def close(self) -> None:
        """Watches nothing."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._folders, self._names = None, frozenset(), {}


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields in which folder something happened, what, and to which name; see inotify(7)."""
    offset = 0
    while offset < len(data):
        number, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield number, mask, data[offset : offset + length].rstrip(b"\0")
        offset += length


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
