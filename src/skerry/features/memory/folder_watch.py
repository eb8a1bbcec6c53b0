"""Detects changes in folders without reading them, with inotify of Linux.

The kernel queues an event before a write returns, so that a check never misses an earlier write.
It needs no thread, and no time without changes. On other systems, on network file systems, and
when the kernel has no free watch, folders must be read.
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
    """Watches folders, without their subfolders. For one thread at a time."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._folders: frozenset[str] = frozenset()
        self._names: dict[int, str] = {}
        """Folders by the watch descriptor of the kernel."""

    @property
    def covers(self) -> bool:
        """Returns whether a watch is active."""
        return self._file is not None

    def cover(self, folders: Iterable[str]) -> bool:
        """Watches exactly these folders; returns whether a new watch was started.

        Changes before a new watch are not known. If it cannot be started, nothing is watched.
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
        """Returns the absolute paths of Markdown files that changed since the last call.

        None without a watch, when folders changed, or after an overflow of the kernel's queue.
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
        """Returns whether a watch is active and reported no change since the last call."""
        return self.changed() == set()

    def close(self) -> None:
        """Ends the watch."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._folders, self._names = None, frozenset(), {}


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields watch descriptor, mask and file name of each event; see inotify(7)."""
    offset = 0
    while offset < len(data):
        number, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield number, mask, data[offset : offset + length].rstrip(b"\0")
        offset += length


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
