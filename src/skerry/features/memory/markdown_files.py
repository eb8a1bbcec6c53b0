"""Finds the Markdown files of the memory, and reads them without following links."""

import codecs
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skerry.features.memory.documents import Stamp
from skerry.features.memory.index_settings import MemoryPaths
from skerry.infra.rooted_fs import EscapeError, RootedFolder

MAX_BYTES: Final = 4 << 20
"""Size limit of a file of notes; larger files are listed in the report."""
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that no Latin-1 text contains."""
_MAX_NAMED: Final = 5
"""Limit on the files that a note names; the list of files has the encoding of each."""
MAX_FILES: Final = 250_000
MAX_DEPTH: Final = 32
SETTLE_NS: Final = 2_000_000_000
"""Resolution of the coarsest file system clock, that of FAT: two seconds."""
_TOP: Final = ("MEMORY.md", "memory.md")
_IGNORED: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Ignored directories of third-party files; hidden directories are ignored too."""


class UnreadableError(Exception):
    """A file cannot be indexed; the message has the reason."""


@dataclass(slots=True)
class FileScan:
    """Files present now."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Stamps by path: relative to the workspace with `/`, or absolute outside it."""
    folders: list[str] = field(default_factory=list)
    """Absolute paths of the directories that were read."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Paths that cannot be read, with the reason."""
    linked: list[tuple[str, str]] = field(default_factory=list)
    """Links that are not followed, with the remedy."""

    def digest(self) -> str:
        """Returns a SHA-256 of the stamps; costs 0.6 us per file."""
        hasher = hashlib.sha256()
        for path, stamp in sorted(self.stamps.items()):
            line = f"{path}\0{stamp.size} {stamp.mtime} {stamp.ctime} {stamp.settled}\n"
            hasher.update(line.encode())
        return hasher.hexdigest()


def scan(paths: MemoryPaths) -> FileScan:
    """Returns all files of the memory. Costs about 4 us per file.

    These are `MEMORY.md`, `memory.md`, `memory/**/*.md` and the extra paths. Symbolic links are
    not followed; links to folders and Markdown files are listed in `linked`.
    """
    result = FileScan()
    if not paths.enabled:
        return result
    root = os.path.abspath(paths.workspace)  # noqa: PTH100 - Path.absolute keeps `..`
    for entry in _entries(result, root, ""):
        if entry.name in _TOP:
            _add(result, entry, entry.name)
    _walk(result, f"{root}/memory", "memory/")
    for extra in paths.extra:
        _look(result, os.path.normpath(paths.workspace.absolute() / extra.expanduser()), root)
    return result


def scan_some(
    paths: MemoryPaths, wholes: Iterable[str], stamps: Mapping[str, Stamp]
) -> tuple[FileScan, list[str]] | None:
    """Returns the stamps and names of single changed files; None if all must be checked.

    `wholes` are absolute paths, in folders that `scan` has read.
    """
    result = FileScan()
    names: list[str] = []
    root = os.path.abspath(paths.workspace)  # noqa: PTH100 - as above
    for full_path in wholes:
        name = name_of(full_path, root)
        if not (name in stamps or name in _TOP or name.startswith("memory/")):
            if paths.extra:
                return None  # it may be in an extra path
            continue  # another file at the top of the workspace
        names.append(name)
        try:
            mode = os.lstat(full_path)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        if not stat.S_ISREG(mode.st_mode):
            return None
        try:
            name.encode()
        except UnicodeEncodeError:
            return None
        result.stamps[name] = _stamp(mode)
    return result, names


def read(paths: MemoryPaths, path: str, now_ns: int) -> tuple[str, Stamp, str]:
    """Returns the text of a file of `scan`, its stamp before reading, and its encoding.

    Raises:
        UnreadableError: it was deleted, or is a link, too large, or not text.
    """
    folder, name = paths.workspace, path
    if path.startswith("/"):
        folder, name = outside(paths, path)
    try:
        with RootedFolder(folder).open(name) as file:
            stamp = _stamp(os.fstat(file.fileno()), now_ns)
            data = file.read(MAX_BYTES + 1) if stamp.size <= MAX_BYTES else b""
    except EscapeError as error:
        raise UnreadableError(error.reason) from error
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    if max(stamp.size, len(data)) > MAX_BYTES:
        raise UnreadableError(f"it is larger than {MAX_BYTES >> 20} MiB")
    text, encoding = decoded(data)
    return text, stamp, encoding


def decoded(data: bytes) -> tuple[str, str]:
    """Returns the text of a file and its encoding: UTF-8, UTF-16 or Latin-1 (pure).

    Raises:
        UnreadableError: it is not text.
    """
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16"), "UTF-16"
        if b"\0" in data:
            raise UnreadableError("it has a zero byte, so it is not text")
        return data.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError as error:
        if error.encoding.startswith("utf-16"):
            raise UnreadableError(f"it is not UTF-16 at byte {error.start}") from error
        if _CONTROLS.search(data):
            raise UnreadableError(f"it is not UTF-8 at byte {error.start}") from error
        try:
            return data.decode("cp1252"), "Windows-1252"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "Latin-1"


def note_of(encodings: Mapping[str, str]) -> str:
    """Returns a note on the encodings of files that are not UTF-8; "" without any (pure)."""
    if not encodings:
        return ""
    named = [f"{path} as {encoding}" for path, encoding in sorted(encodings.items())]
    suffix = f" and {len(named) - _MAX_NAMED} others" if len(named) > _MAX_NAMED else ""
    return (
        f"Not UTF-8: {', '.join(named[:_MAX_NAMED])}{suffix}."
        " If characters are wrong, save the file as UTF-8."
    )


def encoded(text: str, encoding: str) -> bytes:
    """Returns the text in that encoding (pure)."""
    return text.encode("utf-8" if encoding == "UTF-8" else encoding)


def name_of(path: str, root: str) -> str:
    """Returns the name of a file in answers: relative to the workspace, else absolute."""
    if path == root:
        return ""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else path


def outside(paths: MemoryPaths, path: str) -> tuple[Path, str]:
    """Returns the extra path that contains a file outside the workspace, and its name inside.

    Raises:
        UnreadableError: no extra path contains it.
    """
    for extra in paths.extra:
        root = Path(os.path.normpath(paths.workspace.absolute() / extra.expanduser()))
        if path == str(root):
            return root.parent, root.name
        if path.startswith(f"{root}/"):
            return root, path[len(str(root)) + 1 :]
    raise UnreadableError("it is not in an extra path")


def _look(result: FileScan, path: str, root: str) -> None:
    """Adds an extra path: a file, or the files of a folder."""
    name = name_of(path, root)
    try:
        mode = Path(path).lstat()
    except OSError as error:
        result.failed.append((name, error.strerror or str(error)))
        return
    if stat.S_ISDIR(mode.st_mode):
        _walk(result, path, f"{name}/" if name else "")
    elif stat.S_ISREG(mode.st_mode) and is_markdown(path):
        result.folders.append(os.path.dirname(path))  # noqa: PTH120 - a text
        result.stamps.setdefault(name, _stamp(mode))
    else:
        result.failed.append((name, "it is neither a folder nor a Markdown file"))


def _walk(result: FileScan, folder: str, prefix: str) -> None:
    """Adds the Markdown files of a folder and its subfolders, without following links."""
    if os.path.islink(folder):  # noqa: PTH114 - a text
        _name_link(result, folder, prefix.rstrip("/"))
        return
    waiting = [(folder, prefix, 0)]
    while waiting:
        directory, path_prefix, depth = waiting.pop()
        for entry in _entries(result, directory, path_prefix):
            if entry.is_symlink():
                _name_link(result, entry.path, f"{path_prefix}{entry.name}")
            elif entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH and not _is_ignored(entry.name):
                    waiting.append((entry.path, f"{path_prefix}{entry.name}/", depth + 1))
            else:
                _add(result, entry, f"{path_prefix}{entry.name}")


def _entries(result: FileScan, folder: str, name: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scanned:
            entries = list(scanned)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        result.failed.append((name or folder, error.strerror or str(error)))
        return []
    result.folders.append(folder)
    return entries


def _name_link(result: FileScan, whole: str, name: str) -> None:
    """Adds a link to a folder or a Markdown file to `linked`."""
    path = Path(whole)
    if _is_ignored(path.name) or not (path.is_dir() or is_markdown(path.name)):
        return
    target = os.fsencode(path.readlink()).decode("utf-8", "replace")
    reason = f"it is a link to {target}, which is not followed; add that to memorySearch.extraPaths"
    result.linked.append((name.encode("utf-8", "replace").decode(), reason))


def is_markdown(name: str) -> bool:
    """Returns whether a file is Markdown by its name."""
    return name.lower().endswith(".md")


def _add(result: FileScan, entry: os.DirEntry[str], name: str) -> None:
    if not is_markdown(entry.name) or not entry.is_file(follow_symlinks=False):
        return
    if name in result.stamps:
        return  # an extra path inside another one
    if len(result.stamps) >= MAX_FILES:
        if result.failed[-1:] != [_FULL]:
            result.failed.append(_FULL)
        return
    try:
        name.encode()
        result.stamps[name] = _stamp(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return  # it was deleted meanwhile
    except OSError as error:
        result.failed.append((name, error.strerror or str(error)))
    except UnicodeEncodeError:
        result.failed.append((ascii(name)[1:-1], "its name is not UTF-8"))


_FULL: Final = ("memory/", f"there are more than {MAX_FILES} files; further ones are not indexed")


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def _stamp(status: os.stat_result, now_ns: int | None = None) -> Stamp:
    ctime = status.st_ctime_ns
    settled = now_ns is None or ctime < now_ns - SETTLE_NS
    return Stamp(status.st_size, status.st_mtime_ns, ctime, settled)
