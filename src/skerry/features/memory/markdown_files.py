"""Finds the Markdown files that are remembered, and reads them without following a link."""

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
"""A file that is larger is no notes; it is named in the report."""
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
"""No text of Latin-1 has them."""
_MAX_NAMED: Final = 5
"""Files whose encoding is told; the list of files tells that of each."""
MAX_FILES: Final = 250_000
MAX_DEPTH: Final = 32
SETTLE_NS: Final = 2_000_000_000
"""The coarsest clock of a file system, FAT, counts in two seconds."""
_TOP: Final = ("MEMORY.md", "memory.md")
_IGNORED: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Directories that hold what others wrote; those that begin with a dot are ignored too."""


class UnreadableError(Exception):
    """A file cannot be indexed; the text says why."""


@dataclass(slots=True)
class FileScan:
    """Files present now."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Stamps by path: relative to the workspace with `/`, or absolute outside it."""
    folders: list[str] = field(default_factory=list)
    """Directories that were looked into, as the system names them."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Places that cannot be looked into, with the reason."""
    linked: list[tuple[str, str]] = field(default_factory=list)
    """Links that are not followed, with what helps."""

    def digest(self) -> str:
        """Returns a name of this state of the files: SHA-256, 0.6 us a file."""
        made = hashlib.sha256()
        for path, stamp in sorted(self.stamps.items()):
            line = f"{path}\0{stamp.size} {stamp.mtime} {stamp.ctime} {stamp.settled}\n"
            made.update(line.encode())
        return made.hexdigest()


def scan(paths: MemoryPaths) -> FileScan:
    """Returns every file that is to be remembered. Costs about 4 us a file.

    Those are `MEMORY.md`, `memory.md`, `memory/**/*.md` and the extra paths. Symbolic links are
    not followed; links to folders and Markdown files are named in `linked`.
    """
    made = FileScan()
    if not paths.enabled:
        return made
    root = os.path.abspath(paths.workspace)  # noqa: PTH100 - Path.absolute keeps `..`
    for entry in _entries(made, root, ""):
        if entry.name in _TOP:
            _add(made, entry, entry.name)
    _walk(made, f"{root}/memory", "memory/")
    for extra in paths.extra:
        _look(made, os.path.normpath(paths.workspace.absolute() / extra.expanduser()), root)
    return made


def scan_some(
    places: MemoryPaths, wholes: Iterable[str], stamps: Mapping[str, Stamp]
) -> tuple[FileScan, list[str]] | None:
    """Returns the state of single files that changed, and their paths; None means look at all.

    `wholes` are names of the system, in folders that `scan` looked into.
    """
    made = FileScan()
    paths: list[str] = []
    root = os.path.abspath(places.workspace)  # noqa: PTH100 - as above
    for full_path in wholes:
        name = name_of(full_path, root)
        if not (name in stamps or name in _TOP or name.startswith("memory/")):
            if places.extra:
                return None  # it may be of an extra path
            continue  # another file at the top of the workspace
        paths.append(name)
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
        made.stamps[name] = _stamp(mode)
    return made, paths


def read(paths: MemoryPaths, path: str, now_ns: int) -> tuple[str, Stamp, str]:
    """Returns the text of a file of `scan`, its stamp from before it was read, and its encoding.

    Raises:
        UnreadableError: it is gone, a link, too large, or no text.
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
        UnreadableError: it is no text.
    """
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16"), "UTF-16"
        if b"\0" in data:
            raise UnreadableError("it has a zero byte, so it is not text")
        return data.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError as error:
        if error.encoding.startswith("utf-16"):
            raise UnreadableError(f"it is not UTF-16 from byte {error.start} on") from error
        if _CONTROLS.search(data):
            raise UnreadableError(f"it is not UTF-8 from byte {error.start} on") from error
        try:
            return data.decode("cp1252"), "Windows-1252"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "Latin-1"


def note_of(encodings: Mapping[str, str]) -> str:
    """Returns a line that tells how files that are no UTF-8 were read; empty without one (pure)."""
    if not encodings:
        return ""
    named = [f"{path} as {encoding}" for path, encoding in sorted(encodings.items())]
    more = f" and {len(named) - _MAX_NAMED} others" if len(named) > _MAX_NAMED else ""
    return (
        f"Not UTF-8: {', '.join(named[:_MAX_NAMED])}{more}."
        " Where letters look wrong, save the file as UTF-8."
    )


def encoded(text: str, encoding: str) -> bytes:
    """Returns the text as a file in that encoding has it (pure)."""
    return text.encode("utf-8" if encoding == "UTF-8" else encoding)


def name_of(path: str, root: str) -> str:
    """Returns how a file is called in answers: relative to the workspace, else absolute."""
    if path == root:
        return ""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else path


def outside(paths: MemoryPaths, path: str) -> tuple[Path, str]:
    """Returns the extra path that a file outside the workspace belongs to, and its name beneath.

    Raises:
        UnreadableError: it belongs to none.
    """
    for extra in paths.extra:
        root = Path(os.path.normpath(paths.workspace.absolute() / extra.expanduser()))
        if path == str(root):
            return root.parent, root.name
        if path.startswith(f"{root}/"):
            return root, path[len(str(root)) + 1 :]
    raise UnreadableError("it is in none of the extra paths")


def _look(made: FileScan, path: str, root: str) -> None:
    """Adds an extra path: a file, or the files of a folder."""
    name = name_of(path, root)
    try:
        mode = Path(path).lstat()
    except OSError as error:
        made.failed.append((name, error.strerror or str(error)))
        return
    if stat.S_ISDIR(mode.st_mode):
        _walk(made, path, f"{name}/" if name else "")
    elif stat.S_ISREG(mode.st_mode) and is_markdown(path):
        made.folders.append(os.path.dirname(path))  # noqa: PTH120 - a text
        made.stamps.setdefault(name, _stamp(mode))
    else:
        made.failed.append((name, "it is neither a folder nor a Markdown file"))


def _walk(made: FileScan, folder: str, prefix: str) -> None:
    """Adds the Markdown files of a folder and of those in it; a link to one is left out."""
    if os.path.islink(folder):  # noqa: PTH114 - a text
        _name_link(made, folder, prefix.rstrip("/"))
        return
    waiting = [(folder, prefix, 0)]
    while waiting:
        here, path_prefix, depth = waiting.pop()
        for entry in _entries(made, here, path_prefix):
            if entry.is_symlink():
                _name_link(made, entry.path, f"{path_prefix}{entry.name}")
            elif entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH and not _is_ignored(entry.name):
                    waiting.append((entry.path, f"{path_prefix}{entry.name}/", depth + 1))
            else:
                _add(made, entry, f"{path_prefix}{entry.name}")


def _entries(made: FileScan, folder: str, name: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scanned:
            entries = list(scanned)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        made.failed.append((name or folder, error.strerror or str(error)))
        return []
    made.folders.append(folder)
    return entries


def _name_link(made: FileScan, whole: str, name: str) -> None:
    """Names a link that leads to what would be remembered: a folder, or a Markdown file."""
    path = Path(whole)
    if _is_ignored(path.name) or not (path.is_dir() or is_markdown(path.name)):
        return
    target = os.fsencode(path.readlink()).decode("utf-8", "replace")
    why = f"it is a link to {target}, which is not followed; name that in memorySearch.extraPaths"
    made.linked.append((name.encode("utf-8", "replace").decode(), why))


def is_markdown(name: str) -> bool:
    """Returns whether a file is Markdown by its name."""
    return name.lower().endswith(".md")


def _add(made: FileScan, entry: os.DirEntry[str], name: str) -> None:
    if not is_markdown(entry.name) or not entry.is_file(follow_symlinks=False):
        return
    if name in made.stamps:
        return  # an extra path that is in another
    if len(made.stamps) >= MAX_FILES:
        if made.failed[-1:] != [_FULL]:
            made.failed.append(_FULL)
        return
    try:
        name.encode()
        made.stamps[name] = _stamp(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return  # it went meanwhile
    except OSError as error:
        made.failed.append((name, error.strerror or str(error)))
    except UnicodeEncodeError:
        made.failed.append((ascii(name)[1:-1], "its name is not UTF-8"))


_FULL: Final = ("memory/", f"there are more than {MAX_FILES} files; the others are left out")


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def _stamp(status: os.stat_result, now_ns: int | None = None) -> Stamp:
    ctime = status.st_ctime_ns
    settled = now_ns is None or ctime < now_ns - SETTLE_NS
    return Stamp(status.st_size, status.st_mtime_ns, ctime, settled)
