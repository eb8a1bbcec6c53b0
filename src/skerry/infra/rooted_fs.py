"""Opens and replaces files beneath a directory by descriptor: no link, no way out, no race.

Every component is opened relative to its parent's descriptor with `O_NOFOLLOW`, so a component that
is, or becomes, a symbolic link is refused instead of followed. The opened descriptor is then
checked: a plain file with one name. A second hard link could be a file of someone else.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from msgspec import Struct

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class EscapeError(Exception):
    """A path is outside of its directory, is refused by a rule, or is not a plain file."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path!r}: {reason}")


Identity = tuple[int, int]
"""Device and inode."""


class ForbiddenError(EscapeError):
    """The rules of the directory close a file."""


class Opened(Struct, frozen=True):
    """A file as its descriptors have it, whatever path was asked for."""

    path: Path
    """Absolute, without links."""
    folders: tuple[Identity, ...] = ()
    """Identity of each directory from the root to the file, as opened; empty before it is
    opened."""
    is_foreign: bool = False
    """True when it belongs to another user than the root directory, who is not the
    administrator."""
    size: int | None = None
    """Bytes of the file; None where there is none yet."""


class FileRules(Protocol):
    """Decides which files may be opened, and records those that are written."""

    def reading(self, opened: Opened) -> str | None:
        """Returns why the file may not be read; None where it may."""
        ...

    def writing(self, opened: Opened) -> str | None:
        """Returns why the file may not be written; None where it may."""
        ...

    def wrote(self, opened: Opened, data: bytes, *, whole: bool) -> None:
        """Notes what the file is about to hold; `whole`: nothing of what it held before."""
        ...


Change = Callable[[bytes | None], bytes]
"""Function from the file's content, None if there is none, to its new content."""


class Beneath(Struct, frozen=True):
    """A directory beneath which files may be opened, less those that `rules` close."""

    root: Path
    rules: FileRules | None = None

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Opens the plain file `path`, relative to the root, for reading. Raises as `look`."""
        with self.look(path) as (file, _):
            yield file

    @contextmanager
    def look(self, path: str) -> Iterator[tuple[BinaryIO, Opened]]:
        """Opens the plain file `path` for reading, and gives what was opened.

        Raises:
            EscapeError: the path is absolute, climbs out, meets a link, is closed, or is no plain
                file with one name.
            OSError: it does not exist or may not be read.
        """
        parts = _parts(path)
        with ExitStack() as opened:
            folders = self._folders(parts[:-1], path, opened)
            descriptor = _open_at(folders[-1], parts[-1], _FILE, path)
            opened.callback(os.close, descriptor)
            file = self._opened(folders, parts, _check_plain(descriptor, path))
            if self.rules is not None:
                _refuse(path, self.rules.reading(file))
            yield opened.enter_context(os.fdopen(descriptor, "rb", closefd=False)), file

    def target(self, path: str) -> Opened:
        """Returns the file that writing `path` would open, without regard to rules; makes nothing.

        Where a directory on the way does not exist, the names alone tell the place.

        Raises:
            EscapeError: as `look`.
            OSError: it may not be opened.
        """
        parts = _parts(path)
        with ExitStack() as opened:
            try:
                folders = self._folders(parts[:-1], path, opened)
            except FileNotFoundError:
                return Opened(self.root.resolve().joinpath(*parts))
            return self._opened(folders, parts, _status(folders[-1], parts[-1]))

    def contents(self, paths: Iterable[str], most: int) -> Iterator[tuple[str, bytes]]:
        """Yields what plain files hold; those are left out that `open` would refuse, or are larger.

        Files of one folder that follow each other share its opening: 15 us a file, not 150.
        Without regard to rules.
        """
        before: str | None = None
        with ExitStack() as opened:
            folder = -1
            for path in paths:
                above, _, name = path.rpartition("/")
                try:
                    if above != before:
                        opened.close()
                        before = None
                        parts = _parts(path)
                        folder = self._folders(parts[:-1], path, opened)[-1]
                        name, before = parts[-1], above
                    data = _content(folder, name, path, most)
                except (EscapeError, OSError):
                    continue
                if len(data) <= most:
                    yield path, data

    def replace(self, path: str, change: Change, *, most: int, whole: bool = False) -> bool:
        """Gives the plain file `path`, relative to the root, new content: whole or not at all.

        Missing directories are made. An existing file keeps its permissions. `change` is called
        once; what it raises leaves everything as it was.

        Args:
            path: The file.
            change: Makes the new content of the old.
            most: Bytes that the old content may have.
            whole: Whether nothing of the old content stays.

        Returns:
            Whether the file is new.

        Raises:
            EscapeError: as `open`; or the file is too large, or read-only.
            OSError: it cannot be written, or was changed by another process meanwhile.
        """
        parts = _parts(path)
        if self.rules is not None:  # before a directory is made
            target = self.root.resolve().joinpath(*parts)
            _refuse(path, self.rules.writing(Opened(target)))
        with ExitStack() as opened:
            folders = self._folders(parts[:-1], path, opened, make=True)
            folder = folders[-1]
            was, old = _present(folder, parts[-1], path, most)
            data = change(old)
            temporary = f".skerry-{secrets.token_hex(8)}.tmp"
            opened.callback(_remove, folder, temporary)
            _create(folder, temporary, data, None if was is None else stat.S_IMODE(was.st_mode))
            file = self._opened(folders, parts, was)
            if self.rules is not None:  # where the descriptor is now, whatever its name was
                _refuse(path, self.rules.writing(file))
            if _mark(was) != _mark(_status(folder, parts[-1])):
                raise OSError(errno.ESTALE, "it was changed meanwhile; read it again", path)
            if self.rules is not None:  # before: a crash leaves a record without its file
                self.rules.wrote(file, data, whole=whole)
            os.replace(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        return was is None

    def remove(self, path: str, check: Callable[[bytes], object], *, most: int) -> None:
        """Deletes the plain file `path`, relative to the root.

        Args:
            path: The file.
            check: Called with its content; what it raises leaves the file as it was.
            most: Bytes that it may have.

        Raises:
            EscapeError: as `replace`.
            OSError: it does not exist, or was changed by another process meanwhile.
        """
        parts = _parts(path)
        with ExitStack() as opened:
            folders = self._folders(parts[:-1], path, opened)
            folder = folders[-1]
            was, old = _present(folder, parts[-1], path, most)
            if was is None or old is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if self.rules is not None:
                _refuse(path, self.rules.writing(self._opened(folders, parts, was)))
            check(old)
            if _mark(was) != _mark(_status(folder, parts[-1])):
                raise OSError(errno.ESTALE, "it was changed meanwhile; read it again", path)
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)

    def _folders(
        self, parts: tuple[str, ...], path: str, opened: ExitStack, *, make: bool = False
    ) -> list[int]:
        """Returns the descriptors of the root and of each directory that the parts lead to."""
        folders = [os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        opened.callback(os.close, folders[0])
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folders[-1])
            folders.append(_open_at(folders[-1], part, _DIRECTORY, path))
            opened.callback(os.close, folders[-1])
        return folders

    def _opened(
        self, folders: list[int], parts: tuple[str, ...], status: os.stat_result | None
    ) -> Opened:
        statuses = [os.fstat(folder) for folder in folders]
        marks = tuple((entry.st_dev, entry.st_ino) for entry in statuses)
        path = self._real(folders[-1], parts)
        if status is None:
            return Opened(path, marks)
        return Opened(path, marks, status.st_uid not in {0, statuses[0].st_uid}, status.st_size)

    def _real(self, folder: int, parts: tuple[str, ...]) -> Path:
        """Returns where the opened directory is now; without /proc, where it was found."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{folder}")) / parts[-1]  # noqa: PTH115 - text
        except FileNotFoundError:
            return self.root.resolve().joinpath(*parts)


def _parts(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise EscapeError(path.replace("\0", "\\0"), "it has a zero byte")
    pure = PurePosixPath(path)
    if pure.is_absolute():
        raise EscapeError(path, "it is absolute")
    if not pure.parts or ".." in pure.parts:
        raise EscapeError(path, "it climbs out or is empty")
    return pure.parts


def _refuse(path: str, reason: str | None) -> None:
    if reason is not None:
        raise ForbiddenError(path, reason)


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


def _check_plain(descriptor: int, path: str) -> os.stat_result:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise EscapeError(path, "it is not a plain file")
    if status.st_nlink != 1:
        raise EscapeError(path, "it has more than one name (hard link)")
    return status


def _content(folder: int, name: str, path: str, most: int) -> bytes:
    descriptor = _open_at(folder, name, _FILE, path)
    try:
        _check_plain(descriptor, path)
        with os.fdopen(descriptor, "rb", 0, closefd=False) as file:
            return file.read(most + 1) or b""
    finally:
        os.close(descriptor)


def _present(
    folder: int, name: str, path: str, most: int
) -> tuple[os.stat_result | None, bytes | None]:
    """Returns the state and content of a file that may be replaced; Nones where there is none."""
    try:
        descriptor = _open_at(folder, name, _FILE, path)
    except FileNotFoundError:
        return None, None
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        status = _check_plain(descriptor, path)
        if not status.st_mode & stat.S_IWUSR:
            raise EscapeError(path, "it is read-only")
        file = opened.enter_context(os.fdopen(descriptor, "rb", closefd=False))
        old = file.read(most + 1)
    if len(old) > most:
        raise EscapeError(path, f"it has more than {most} bytes")
    return status, old


def _create(folder: int, name: str, data: bytes, mode: int | None) -> None:
    descriptor = os.open(name, _NEW, 0o600 if mode is not None else 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _mark(status: os.stat_result | None) -> tuple[int, ...] | None:
    """Returns a mark that changes when the file is replaced or written."""
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
