"""Lists, reads and replaces whole Markdown files of the memory, for a person who edits them.

All of it blocks.
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
"""Size limit of a file that is edited here; the same as for notes."""

FileLocation = tuple[Path, str]
"""A folder, and the path beneath it, as `reading.place_of` gives it."""


class ChangedError(MemoryBackendError):
    """Conflict: the file was changed since it was read."""

    code = "memory.changed"


class SaveError(MemoryBackendError):
    """A file is not saved; the message says why."""

    code = "memory.save"


def listed(
    workspace: Path, extra: Sequence[str], indexed: Iterable[MemoryFile]
) -> list[MemoryFile]:
    """Returns the files as they are now with what is known of them, and the conversations.

    Costs about 10 us a file.
    """
    by_path = {file.path: file for file in indexed}
    present = scan(MemoryPaths(workspace, tuple(Path(extra_path) for extra_path in extra)))
    made = [file for file in by_path.values() if file.source is MemorySource.SESSIONS]
    for path, stamp in present.stamps.items():
        was = by_path.get(path)
        at = date_of(path)
        made.append(
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
    return sorted([*made, *failed], key=lambda file: file.path)


def read_whole(root_and_name: FileLocation, path: str, rules: FileRules | None) -> MemoryWhole:
    """Returns all of a file; an empty one where there is none.

    Raises:
        NotMemoryError: a link or something else than a plain file is in the way, it is too large,
            or no text.
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
        large = NotMemoryError(f"{path!r} has more than {MAX_BYTES >> 20} MiB.")
        large.remedy = "Edit it with a program on the gateway's machine."
        raise large
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotMemoryError(f"{path!r} is not UTF-8 from byte {error.start} on.") from error
    return MemoryWhole(path, text, _hash(data), [provenance_of(note) for note in notes(text)])


def save(
    root_and_name: FileLocation, path: str, text: str, base: str, rules: FileRules | None
) -> MemorySaved:
    """Replaces a file whose hash is still `base`, whole or not at all; empty, it is a new one.

    Lines end as they ended before: a browser makes them all end with a line feed.

    Raises:
        ChangedError: it says something else by now, or is there though it was not, or the reverse.
        SaveError: it cannot be written; outside the workspace no new file is made.
    """
    root, name = root_and_name
    _check_root(root, path)
    if not base and not is_memory(path):
        raise SaveError(f"{path!r} does not exist; new files are MEMORY.md or in memory/.")
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
        raise NotMemoryError(f"{path!r} is not changed: it goes through a symbolic link.")


def _data(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise SaveError("It is not saved: it contains half a character.") from error
    if b"\0" in data:
        raise SaveError("It is not saved: it contains a zero byte, so it is not text.")
    if len(data) > MAX_BYTES:
        raise SaveError(f"It is not saved: it has more than {MAX_BYTES >> 20} MiB.")
    return data


def _changed(path: str) -> ChangedError:
    error = ChangedError(f"{path!r} was changed since it was opened, and is not saved.")
    error.remedy = "Read it again, and merge both."
    return error


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()
