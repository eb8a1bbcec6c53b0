"""Lists, reads and replaces whole Markdown files of the memory, for a person who edits them.

All functions block.
"""

import errno
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from skerry.features.memory.documents import date_of
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.markdown_files import scan
from skerry.features.memory.notes import notes
from skerry.features.memory.reading import NotMemoryError, provenance_of
from skerry.infra.rooted_fs import EscapeError, FileRules, RootedFolder
from skerry.model.memory import (
    MemoryBackendError,
    MemoryFile,
    MemorySaved,
    MemorySource,
    MemoryWhole,
    is_memory,
)

MAX_BYTES: Final = 1024 * 1024
"""Size limit of an edited file; the same as for notes."""

FileLocation = tuple[Path, str]
"""A folder, and the path inside it, as `reading.locate` returns it."""


class ChangedError(MemoryBackendError):
    """Conflict: the file was changed since it was read."""

    code = "memory.changed"


class SaveError(MemoryBackendError):
    """A file was not saved; the message has the reason."""

    code = "memory.save"


def listed(
    workspace: Path, extra: Sequence[str], indexed: Iterable[MemoryFile]
) -> list[MemoryFile]:
    """Returns the present files with the state of their index, and the indexed conversations.

    Costs about 10 us a file.
    """
    by_path = {file.path: file for file in indexed}
    present = scan(MemoryPaths(workspace, tuple(Path(extra_path) for extra_path in extra)))
    files = [file for file in by_path.values() if file.source is MemorySource.SESSIONS]
    for path, stamp in present.stamps.items():
        was = by_path.get(path)
        at = date_of(path)
        files.append(
            MemoryFile(
                path=path,
                source=MemorySource.MEMORY,
                size=stamp.size,
                changed_at=stamp.mtime // 1_000_000,
                day=None if at is None else f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}",
                passages=was.passages if was else None,
                vectors=was.vectors if was else None,
                error=was.error if was else "",
                encoding=was.encoding if was else "",
            )
        )
    failed = [
        MemoryFile(path, MemorySource.MEMORY, 0, 0, error=reason) for path, reason in present.failed
    ]
    return sorted([*files, *failed], key=lambda file: file.path)


def read_whole(root_and_name: FileLocation, path: str, rules: FileRules | None) -> MemoryWhole:
    """Returns the whole file; an empty text if it does not exist.

    Raises:
        NotMemoryError: the path leads through a link or to something else than a regular file, or
            the file is too large or not text.
    """
    root, name = root_and_name
    _check_root(root, path)
    try:
        with RootedFolder(root, rules).open(name) as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return MemoryWhole(path, "", "")
    except EscapeError as error:
        raise NotMemoryError(f"{path!r} is not read: {error.reason}.") from error
    except OSError as error:
        raise NotMemoryError(f"{path!r} is not read: {error.strerror}.") from error
    if len(data) > MAX_BYTES:
        large = NotMemoryError(f"{path!r} is larger than {MAX_BYTES >> 20} MiB.")
        large.remedy = "Edit it with a program on the gateway's machine."
        raise large
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotMemoryError(f"{path!r} is not UTF-8 at byte {error.start}.") from error
    return MemoryWhole(path, text, _hash(data), [provenance_of(note) for note in notes(text)])


def save(
    root_and_name: FileLocation, path: str, text: str, base: str, rules: FileRules | None
) -> MemorySaved:
    """Replaces a file atomically if its hash is still `base`; an empty `base` creates a new file.

    The line ends of the old file are kept: a browser sends line feeds only.

    Raises:
        ChangedError: the file was changed, created or deleted since it was read.
        SaveError: it cannot be written; outside the workspace no new file is created.
    """
    root, name = root_and_name
    _check_root(root, path)
    if not base and not is_memory(path):
        raise SaveError(f"{path!r} does not exist. A new file is MEMORY.md, or in memory/.")
    saved = _data(text)

    def change(old: bytes | None) -> bytes:
        nonlocal saved
        if ("" if old is None else _hash(old)) != base:
            raise _changed(path)
        if old and b"\r\n" in old and b"\n" not in old.replace(b"\r\n", b""):
            saved = saved.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return saved

    try:
        is_new = RootedFolder(root, rules).replace(name, change, max_bytes=MAX_BYTES)
    except EscapeError as error:
        raise SaveError(f"{path!r} is not saved: {error.reason}.") from error
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise _changed(path) from error
        raise SaveError(f"{path!r} is not saved: {error.strerror}.") from error
    return MemorySaved(path, _hash(saved), is_new)


def _check_root(root: Path, path: str) -> None:
    if root.is_symlink() and not is_memory(path):
        raise NotMemoryError(f"{path!r} is not changed: the path leads through a symbolic link.")


def _data(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise SaveError("The text is not saved: it contains half a character.") from error
    if b"\0" in data:
        raise SaveError("The text is not saved: it contains a zero byte, so it is not text.")
    if len(data) > MAX_BYTES:
        raise SaveError(f"The text is not saved: it is larger than {MAX_BYTES >> 20} MiB.")
    return data


def _changed(path: str) -> ChangedError:
    error = ChangedError(f"{path!r} was changed since it was opened, and is not saved.")
    error.remedy = "Read it again, and merge both versions."
    return error


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()
