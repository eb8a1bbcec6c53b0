"""Mounts of a workspace: its read-only parts, opened by descriptor.

Commands may not write what tools may not write. For the top-level names that the gateway loads,
empty placeholders exist while a command runs, since a mount needs a target; so no command can
create these names. In a run that has read untrusted text the same holds for the memory and for the
files that a prompt reads, under each of their names in the workspace. Sockets and pipes of outside
programs are covered, because a command that connects to one leaves the sandbox.
"""

import os
import stat
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec import Struct, field

from skerry.config.protected import CLOSED, HOOK, Protected
from skerry.features.sandbox.stage import Mount
from skerry.model.errors import SandboxError
from skerry.model.memory import FOLDER, LONG_TERM
from skerry.policy.file_kinds import INSTRUCTIONS, LOADED
from skerry.ports.sandbox import WORKDIR

HOOK_FILE: Final = "HOOK.md"
"""Name of the `HOOK` file for the loader of hooks; a directory of that name is no hook."""
MAX_ENTRIES: Final = 50_000
"""Maximum number of examined entries of a workspace; a folder at the top with more is read-only."""
MAX_MOUNTS: Final = 200
"""Maximum number of read-only paths of a workspace; folders that would add more are read-only as a
whole."""
MAX_DEPTH: Final = 64
MAX_SPECIAL_FILES: Final = 200
"""Maximum number of sockets, pipes and devices in a workspace."""
MAX_LINKED_FILES: Final = 2000
"""Maximum number of closed files whose other names are searched."""
_AT_ONCE: Final = 8
"""Number of placeholders that are removed in parallel."""
_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HiddenNames(Struct, frozen=True):
    """Top-level names of a workspace that a command can neither create nor change."""

    folders: tuple[str, ...]
    files: tuple[str, ...] = ()


def closed_names(*, is_tainted: bool) -> HiddenNames:
    """Returns the names that the gateway loads, and in a tainted run the names that it reads."""
    folders = LOADED | CLOSED | {HOOK_FILE}
    if not is_tainted:
        return HiddenNames(tuple(sorted(folders)))
    prompts = {name.removesuffix(".md").upper() + ".md" for name in INSTRUCTIONS}
    return HiddenNames(tuple(sorted(folders | {FOLDER})), tuple(sorted(prompts | LONG_TERM)))


class View(Struct, frozen=True):
    """The mounts of a workspace for a command; the caller calls `close`."""

    mounts: list[Mount] = field(default_factory=list)
    """Mounts; the first is the workspace itself."""
    hidden: tuple[str, ...] = ()
    """Paths inside that are covered by an empty folder."""
    covered: tuple[str, ...] = ()
    """Paths inside that are covered by an empty file."""

    def close(self) -> None:
        """Closes the descriptors."""
        for mount in self.mounts:
            os.close(mount.descriptor)
        self.mounts.clear()


class Placeholders:
    """Empty files and directories that exist in workspaces while commands run there.

    A placeholder is removed when no command needs it. Its methods block, so call them in threads:
    ext4 waits a millisecond when it removes a directory, without CPU; several in parallel take as
    long as one.
    """

    def __init__(self) -> None:
        self._used: dict[Path, int] = {}
        self._turn = Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "placeholders")

    def hold(self, workspace: Path, names: HiddenNames) -> list[Path]:
        """Creates the missing names; returns them for `release`.

        Raises:
            SandboxError: a placeholder cannot be created.
        """
        created: list[Path] = []
        try:
            with self._turn:
                for name in (*names.folders, *names.files):
                    path = workspace / name
                    if path in self._used or _created(path, is_folder=name in names.folders):
                        self._used[path] = self._used.get(path, 0) + 1
                        created.append(path)
        except SandboxError:
            self.release(created)
            raise
        return created

    def release(self, created: list[Path]) -> None:
        """Removes the placeholders that no other command uses; close their mounts before."""
        with self._turn:
            unused: list[Path] = []
            for path in created:
                self._used[path] -= 1
                if not self._used[path]:
                    del self._used[path]
                    unused.append(path)
            list(self._pool.map(_remove, unused))


def opened(
    workspace: Path,
    names: HiddenNames,
    guard: Protected | None,
    extra: tuple[Path, ...] = (),
    *,
    writes: bool = True,
) -> View:
    """Returns the mounts of a workspace. Blocks while it examines the entries.

    Args:
        workspace: Path of the workspace, without links.
        names: Names that are closed at the top.
        guard: Paths that are closed to tools; None for a folder of the sandbox alone.
        extra: Further paths that are read-only, below the workspace.
        writes: False where the whole workspace is read-only.

    Raises:
        SandboxError: the workspace cannot be opened, a closed name is a link, or the configuration
            is in the workspace.
    """
    hidden = _hidden(workspace, guard)
    writable = writes and (guard is None or guard.writing(workspace / "x") is None)
    closed = frozenset((*names.folders, *names.files, *_closed_below(workspace, guard, extra)))
    mounts: list[Mount] = []
    walk = _Walk(closed, is_writable=writable)
    try:
        root = os.open(workspace, _FOLDER)
        mounts.append(Mount(root, str(WORKDIR), is_writable=writable))
        if writable and guard is not None:
            walk.linked = _linked(root, names)
        if guard is not None:
            inner = walk.top(root)
            mounts += inner if writable else []
            View([] if writable else inner).close()
    except (OSError, SandboxError) as error:
        View(mounts).close()
        if isinstance(error, SandboxError):
            raise
        message = f"The workspace {workspace} cannot be opened: {error.strerror}."
        raise SandboxError(message, f"Correct the permissions of {workspace}.") from error
    return View(mounts, hidden, tuple(walk.covered))


def _linked(root: int, names: HiddenNames) -> frozenset[tuple[int, int]]:
    """Returns the closed files with a second name, by device and inode."""
    linked: set[tuple[int, int]] = set()
    remaining = MAX_LINKED_FILES
    waiting = [*names.folders, *names.files]
    while waiting and (remaining := remaining - 1):
        name = waiting.pop()
        with suppress(OSError):
            status = os.stat(name, dir_fd=root, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                linked.add((status.st_dev, status.st_ino))
            elif stat.S_ISDIR(status.st_mode) and name.partition("/")[0] not in CLOSED:
                folder = os.open(name, _FOLDER, dir_fd=root)
                try:
                    with os.scandir(folder) as entries:
                        waiting += [f"{name}/{entry.name}" for entry in entries]
                finally:
                    os.close(folder)
    return frozenset(linked)


def _hidden(workspace: Path, guard: Protected | None) -> tuple[str, ...]:
    """Returns the paths inside that a command must not read."""
    if guard is None:
        return ()
    state = guard.state
    for file in guard.configuration:
        if file.is_relative_to(workspace) and not file.is_relative_to(state):
            raise SandboxError(
                f"{file} is in the workspace {workspace}, where commands could read it.",
                f"Move it, or configure another workspace than {workspace}.",
            )
    if state.is_relative_to(workspace) and state != workspace:
        return (str(WORKDIR / state.relative_to(workspace)),)
    return ()


def _closed_below(
    workspace: Path, guard: Protected | None, extra: tuple[Path, ...]
) -> Iterator[str]:
    for path in (*(guard.code if guard else ()), *extra):
        if path.is_relative_to(workspace) and path != workspace:
            yield str(path.relative_to(workspace))


class _Walk:
    """Searches a workspace for closed names, at any depth, only through opened directories."""

    def __init__(self, closed: frozenset[str], *, is_writable: bool) -> None:
        self._closed = closed
        self._is_writable = is_writable
        self._entries = 0
        self.linked: frozenset[tuple[int, int]] = frozenset()
        """Closed files with several names, by device and inode."""
        self.covered: list[str] = []

    def top(self, root: int) -> list[Mount]:
        """Returns the mounts below the root, outer directories first."""
        mounts: list[Mount] = []
        try:
            for name in sorted(os.listdir(root)):
                inner: list[Mount] = []
                try:
                    self._look(root, (name,), inner)
                except _TooManyError:
                    inner = self._whole(root, name, inner)
                if len(mounts) + len(inner) > MAX_MOUNTS:
                    inner = self._whole(root, name, inner)
                mounts += inner
        except BaseException:
            View(mounts).close()
            raise
        return mounts

    def _look(self, folder: int, names: tuple[str, ...], mounts: list[Mount]) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES or len(names) > MAX_DEPTH:
            raise _TooManyError
        name = names[-1]
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if self._is_closed(names):
            if stat.S_ISLNK(status.st_mode):
                if self._is_writable:
                    _refuse_link(names)
            else:
                mounts.append(self._mount(folder, names))
        elif stat.S_ISDIR(status.st_mode):
            self._look_into(folder, names, mounts)
        elif (status.st_dev, status.st_ino) in self.linked:
            mounts.append(self._mount(folder, names))
        elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            self._cover(names)

    def _cover(self, names: tuple[str, ...]) -> None:
        if len(self.covered) == MAX_SPECIAL_FILES:
            raise SandboxError(
                f"The workspace has more than {MAX_SPECIAL_FILES} sockets, pipes or devices.",
                f"Remove those in {'/'.join(names[:-1]) or 'its top folder'}.",
            )
        self.covered.append(str(WORKDIR.joinpath(*names)))

    def _look_into(self, folder: int, names: tuple[str, ...], mounts: list[Mount]) -> None:
        try:
            inner = os.open(names[-1], _FOLDER, dir_fd=folder)
        except OSError:  # this process cannot read it; a command could change its mode
            mounts.append(self._mount(folder, names))
            return
        try:
            with os.scandir(inner) as entries:
                listed = [(entry.name, self._is_of_interest(entry)) for entry in entries]
            self._entries += len(listed)
            for entry, is_of_interest in listed:
                path = (*names, entry)
                if is_of_interest or self._is_closed(path):
                    self._look(inner, path, mounts)
        finally:
            os.close(inner)

    def _is_of_interest(self, entry: os.DirEntry[str]) -> bool:
        """Returns whether an entry is a directory, of a special kind, or has several names."""
        if any(number == entry.inode() for _, number in self.linked):
            return True
        return not (entry.is_symlink() or entry.is_file(follow_symlinks=False))

    def _whole(self, root: int, name: str, inner: list[Mount]) -> list[Mount]:
        """Returns a folder as a whole in place of the mounts below it."""
        View(inner).close()
        return [self._mount(root, (name,))]

    def _is_closed(self, names: tuple[str, ...]) -> bool:
        name = names[-1]
        folded = name.casefold()
        if not name.isascii():
            folded = unicodedata.normalize("NFKC", name).casefold()
        return folded in CLOSED or folded == HOOK or "/".join(names) in self._closed

    def _mount(self, folder: int, names: tuple[str, ...]) -> Mount:
        descriptor = os.open(names[-1], _PATH, dir_fd=folder)
        return Mount(descriptor, str(WORKDIR.joinpath(*names)))


class _TooManyError(Exception):
    """A folder has too many entries to examine."""


def _refuse_link(names: tuple[str, ...]) -> None:
    """Refuses a top-level link with a closed name: a command could replace it with a directory."""
    if len(names) == 1:
        raise SandboxError(
            f"{names[0]} in the workspace is a symbolic link, which commands could replace.",
            f"Put a directory in place of the link {names[0]}.",
        )


def _created(path: Path, *, is_folder: bool) -> bool:
    """Creates an empty directory or file; returns false when the name exists."""
    try:
        if is_folder:
            path.mkdir(mode=0o700)
        else:
            path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    except OSError as error:
        message = f"{path} cannot be closed to commands: {error.strerror}."
        raise SandboxError(message, f"Make the workspace {path.parent} writable.") from error
    return True


def _remove(path: Path) -> None:
    """Removes an empty placeholder; keeps it when it has content."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            path.rmdir()
        elif stat.S_ISREG(status.st_mode) and status.st_size == 0:
            path.unlink()
