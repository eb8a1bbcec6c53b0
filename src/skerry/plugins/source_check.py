"""Reads the file of a plugin, and checks that only the owner could have written it.

Plugins run inside the gateway with all its rights. A file is read once, so that the checked bytes
are executed.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.model.errors import PluginError

MAX_BYTES: Final = 4 * 1024 * 1024
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# O_PATH opens a directory that this user may pass through but not list.
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Checked code of a plugin."""

    path: Path
    code: bytes
    sha256: str


def read_source(
    path: Path, pinned: str | None, workspaces: Iterable[Path], setting: str | None = None
) -> PluginSource:
    """Reads, checks and returns the code at `path`.

    Args:
        path: The file; links are followed, and their targets are checked.
        pinned: Required SHA-256; None accepts any file outside of a workspace.
        workspaces: Directories that agents write to.
        setting: Key of the configuration that pins the hash; None for that of a plugin.

    Raises:
        PluginError: the file may not be run; message and `remedy` are for the owner.
    """
    try:
        real = path.resolve(strict=True)
        _check_path(path)
        with _opened(real) as descriptor, open(descriptor, "rb", closefd=False) as file:
            status = os.fstat(descriptor)
            _check_file(real, status)
            code = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PluginError(
            f"{path} cannot be read: {error.strerror}.", "Correct plugins.load.paths."
        ) from error
    if len(code) > MAX_BYTES:
        raise PluginError(f"{path} has more than {MAX_BYTES} bytes.", "It is not a plugin file.")
    digest = hashlib.sha256(code).hexdigest()
    pin = f'Look at it, then pin it: {setting or _setting(path)} = "{digest}".'
    if pinned is not None and pinned != digest:
        raise PluginError(f"{path} is not the file that was pinned; it has changed.", pin)
    if pinned is None and status.st_nlink != 1:
        raise PluginError(f"{path} has another name, under which it may be written.", pin)
    paths = (real, path.parent.resolve())
    if pinned is None and any(
        location.is_relative_to(workspace.resolve())
        for location in paths
        for workspace in workspaces
    ):
        raise PluginError(f"{path} is in a workspace, where agents write.", pin)
    return PluginSource(real, code, digest)


def _setting(path: Path) -> str:
    return f"plugins.entries.{path.stem}.sha256"


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PluginError(f"{path} is not a regular file.", "Correct plugins.load.paths.")
    _check_owner(path, status)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PluginError(f"Other users may write {path}.", f"Run: chmod go-w {path}")


def _check_path(path: Path) -> None:
    """Checks that no other user could redirect the path to another file."""
    for directory in path.absolute().parents:
        _check_directory(directory, directory.stat())
    _check_owner(path, path.lstat())


@contextmanager
def _opened(real: Path) -> Iterator[int]:
    """Opens the file component by component from the root, and checks each directory.

    Raises:
        OSError: a component is a link, or cannot be opened.
    """
    descriptor = os.open(real.anchor, _DIRECTORY | os.O_CLOEXEC)
    directory = Path(real.anchor)
    try:
        _check_directory(directory, os.fstat(descriptor))
        for name in real.parts[1:-1]:
            directory /= name
            inner = os.open(name, _DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            _check_directory(directory, os.fstat(descriptor))
        inner = os.open(real.name, _FILE, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _check_directory(path: Path, status: os.stat_result) -> None:
    """Refuses a directory in which another user could replace a file."""
    _check_owner(path, status)
    open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if open_to_all and not status.st_mode & stat.S_ISVTX:  # in a sticky directory owners rename
        raise PluginError(f"Other users may write into {path}.", f"Run: chmod go-w {path}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in {0, os.geteuid()}:
        raise PluginError(
            f"{path} belongs to another user.", "Copy it to a directory that belongs to you."
        )
