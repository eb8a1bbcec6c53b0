"""Finds programs on a fixed search path whose folders nobody else can write to."""

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
"""Folders of programs. The PATH of the environment is never used; a command that runs unasked must
run with this one."""
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Resolved(Struct, frozen=True):
    """A program file."""

    name: str
    """The name by which it is called, which a program of many names reads."""
    path: str
    """Path by which it was found: a folder of the search path, and the name."""
    real: str
    """Path of the file, without links."""


def resolve(word: str, search_path: Sequence[str] = SEARCH_PATH) -> Resolved | None:
    """Returns the program that a word names.

    A name is looked up in the search path; a path must be absolute and in its plain form. None
    where there is no such program, or where others than root and we can change it.
    """
    if "/" not in word:
        if word in {"", ".", ".."} or "\0" in word:
            return None
        for folder in search_path:
            path = f"{folder}/{word}"
            if os.path.lexists(path):
                # A file that would run but cannot be trusted hides those of later folders.
                return _trusted(path)
        return None
    if not word.startswith("/") or os.path.normpath(word) != word or "\0" in word:
        return None
    if word.startswith(("//", "/proc/", "/dev/")):  # what these name depends on the process
        return None
    return _trusted(word)


def is_on_path(program: Resolved, search_path: Sequence[str]) -> bool:
    """Returns whether the program is the one that the search path has for its name."""
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
        return os.stat(path)  # noqa: PTH116 - a Path takes longer to make than the call takes
    except OSError:
        return None


def _folders(path: str) -> Iterator[str]:
    """Yields the folders that lead to an absolute path."""
    index = 0
    while (index := path.find("/", index)) >= 0:
        yield path[:index] or "/"
        index += 1


def is_ours(status: os.stat_result) -> bool:
    """Returns whether root or this user owns a file or folder, and nobody else can write to it."""
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & _OTHERS
