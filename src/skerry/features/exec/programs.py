"""Finds programs on a fixed search path whose folders no other user can write."""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

SEARCH_PATH: Final = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
"""Folders of programs. The PATH of the environment is never used to find them; a command that runs
without a question must run with this search path."""
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Resolved(Struct, frozen=True):
    """A program file."""

    name: str
    """Name of the call, which a program with several names reads."""
    path: str
    """Path before links: a folder of the search path, and the name."""
    real: str
    """Path of the file, without links."""


def resolve(word: str, search_path: Sequence[str] = SEARCH_PATH) -> Resolved | None:
    """Returns the program that a word names.

    A name is looked up in the search path; a path must be absolute and normalized. None when the
    program does not exist, or when users other than root and this one can change it.
    """
    if "/" not in word:
        if word in {"", ".", ".."} or "\0" in word:
            return None
        for folder in search_path:
            path = f"{folder}/{word}"
            if os.path.lexists(path):
                # An executable file that is not trusted hides those of later folders.
                return _trusted(path)
        return None
    if not word.startswith("/") or os.path.normpath(word) != word or "\0" in word:
        return None
    if word.startswith(("//", "/proc/", "/dev/")):  # their meaning depends on the process
        return None
    return _trusted(word)


def is_on_path(program: Resolved, search_path: Sequence[str]) -> bool:
    """Returns true when the search path resolves the name to this program."""
    by_name = resolve(program.name, search_path)
    is_inside = program.path.rpartition("/")[0] in search_path
    return by_name is not None and is_inside and by_name.real == program.real


def _trusted(path: str) -> Resolved | None:
    real = os.path.realpath(path)
    status = _status(real)
    if status is None or not stat.S_ISREG(status.st_mode) or not os.access(real, os.X_OK):
        return None
    folders = {*_folders(path), *_folders(real)}
    if not is_ours(status) or not all(map(_is_safe_folder, folders)):
        return None
    return Resolved(path.rpartition("/")[2], path, real)


def _is_safe_folder(folder: str) -> bool:
    status = _status(folder)
    return status is not None and is_ours(status)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - creating a Path takes longer than the call
    except OSError:
        return None


def _folders(path: str) -> Iterator[str]:
    """Yields the parent folders of an absolute path."""
    index = 0
    while (index := path.find("/", index)) >= 0:
        yield path[:index] or "/"
        index += 1


def is_ours(status: os.stat_result) -> bool:
    """Returns true when root or this user owns a file or folder that no other user can write."""
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & _WRITABLE_BY_OTHERS
