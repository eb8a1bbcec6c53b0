"""The folder of managed skills: installs, replaces and removes a skill as a whole.

A skill is written to a hidden folder beside the others, synced, and exchanged with the installed
folder by one call of the kernel. A kill leaves the old or the new skill, and at most a hidden
folder, which the next command removes.
"""

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from skerry.features.skill_registry.content import content_hash, read_folder
from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.lock_file import LockedSkill, read_lock, write_lock
from skerry.infra.atomic import exclusive, make_private

STAGED: Final = ".new-"
"""Beginning of the names of hidden folders."""
_ASIDE: Final = ".old-"
"""Beginning of the name of a folder that is being replaced where folders cannot be exchanged."""
_EXCHANGE: Final = 2
"""`RENAME_EXCHANGE` of renameat2(2), and `RENAME_SWAP` of renamex_np(2)."""
_AT_FDCWD: Final = -100
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class ManagedSkills:
    """The managed skills of an installation; `opened` makes it and holds their lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.locked = self._settled()
        """Installed skills by slug."""

    def path(self, slug: str) -> Path:
        """Returns the folder of a skill."""
        return self.folder / slug

    def is_changed(self, slug: str) -> bool:
        """Returns whether files of an installed skill differ from those that were installed."""
        return content_hash(read_folder(self.path(slug))) != self.locked[slug].sha256

    def put(self, slug: str, files: Mapping[str, bytes], entry: LockedSkill) -> None:
        """Installs a skill, in place of an installed one of the same slug.

        Raises:
            SkillError: the folder exists, but was not installed from a registry.
            OSError: the files could not be written; the old skill is unchanged.
        """
        target, old = self.path(slug), self.locked.get(slug)
        if old is None and os.path.lexists(target):
            raise SkillError(
                f"{target} exists, and no registry installed it.", "Move it to another name first."
            )
        staged = self.folder / f"{STAGED}{slug}-{secrets.token_hex(4)}"
        try:
            _write(staged, files)
            previous = None if old is None else replace(old, previous=None)
            self._write_lock({**self.locked, slug: replace(entry, previous=previous)})
            exchange(staged, target)
            _sync(self.folder)
            self._write_lock({**self.locked, slug: replace(entry, previous=None)})
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def remove(self, slug: str) -> None:
        """Removes an installed skill."""
        aside = self.folder / f"{STAGED}{slug}-{secrets.token_hex(4)}"
        self.path(slug).rename(aside)
        self._write_lock({name: entry for name, entry in self.locked.items() if name != slug})
        shutil.rmtree(aside)

    def _write_lock(self, skills: dict[str, LockedSkill]) -> None:
        write_lock(self.folder, skills)
        self.locked = skills

    def _settled(self) -> dict[str, LockedSkill]:
        """Returns the entries of the installed skills, also after a command was killed.

        Hidden folders are removed; a folder that was moved aside is moved back if it is missing.
        """
        for path in sorted(self.folder.glob(f"{_ASIDE}*")):
            target = self.path(path.name.removeprefix(_ASIDE))
            if target.exists():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.rename(target)
        for path in self.folder.glob(f"{STAGED}*"):
            shutil.rmtree(path, ignore_errors=True)
        locked = read_lock(self.folder)
        settled: dict[str, LockedSkill] = {}
        for slug, entry in locked.items():
            if not self.path(slug).is_dir():
                continue
            previous = entry.previous
            if previous is not None:
                sha256 = content_hash(read_folder(self.path(slug)))
                entry = previous if sha256 == previous.sha256 else entry  # noqa: PLW2901 - settled
            settled[slug] = replace(entry, previous=None)
        if settled != locked:
            write_lock(self.folder, settled)
        return settled


@contextmanager
def opened(folder: Path) -> Iterator[ManagedSkills]:
    """Holds the lock on the folder of managed skills for the block; waits for other commands."""
    make_private(folder)
    with exclusive(folder):
        yield ManagedSkills(folder)


def exchange(staged: Path, target: Path) -> None:
    """Puts `staged` at `target`; an old folder is at `staged` afterwards.

    Raises:
        OSError: it failed; `target` is unchanged.
    """
    if not target.exists():
        staged.rename(target)
    elif not _exchanged(staged, target):
        # The file system cannot exchange. A kill between the two is repaired by `_settled`.
        aside = target.with_name(f"{_ASIDE}{target.name}")
        target.rename(aside)
        staged.rename(target)
        aside.rename(staged)


def _exchanged(first: Path, second: Path) -> bool:
    """Exchanges two names in one step; returns False where the system cannot."""
    library = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(first), os.fsencode(second))
    if hasattr(library, "renameat2"):
        code = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)
    elif hasattr(library, "renamex_np"):
        code = library.renamex_np(*names, _EXCHANGE)
    else:
        return False
    number = ctypes.get_errno()
    if code and number not in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        raise OSError(number, os.strerror(number), str(second))
    return not code


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files into a new private folder, and syncs them."""
    folder.mkdir(mode=0o700)
    folders = {folder}
    for path, data in files.items():
        target = folder / path
        make_private(target.parent)
        folders.update(target.parents[: len(Path(path).parts)])
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    for each in folders:
        _sync(each)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
