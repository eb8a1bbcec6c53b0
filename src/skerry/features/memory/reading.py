"""Reads documents of the memory: Markdown in its collections, opened without following links.

Source: seed 003, "QMD Security". The folder of a path is determined by name; `infra.rooted_fs` then
opens it by descriptors, so that no link leads elsewhere.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from skerry.features.memory.notes import Note
from skerry.infra.rooted_fs import EscapeError, FileRules, RootedFolder
from skerry.model.memory import MemoryBackendError, MemoryProvenance, MemoryText, is_memory

MAX_CHARS: Final = 20_000
"""Limit on the characters of one answer."""
LINE_BYTES: Final = 8192
"""Limit on the bytes of one line; the rest is left out."""
SUFFIX: Final = ".md"
ELSEWHERE: Final = ("qmd", "sessions", "slot")
"""First names of paths whose documents are read from the backend, not from files."""


class NotMemoryError(MemoryBackendError):
    """A path is not in the memory."""

    code = "memory.path"
    remedy = "`skerry memory files` lists the files."


def is_elsewhere(path: str) -> bool:
    """Returns whether only the backend has the document at the path (pure)."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] in ELSEWHERE and ".." not in parts


def locate(path: str, workspace: Path, extra: Sequence[str]) -> tuple[Path, str]:
    """Returns the folder of a document, and its path inside that folder (pure).

    Raises:
        NotMemoryError: the path is not Markdown, or in no collection.
    """
    if not path.endswith(SUFFIX) or "\0" in path:
        raise NotMemoryError(
            f"{path!r} is not a Markdown file. Only .md files of the memory are read."
        )
    if is_memory(path):
        return workspace, path
    path_below = Path(os.path.normpath(workspace / path))
    for extra_path in extra:
        root = Path(os.path.normpath(workspace / Path(extra_path).expanduser()))
        if path_below == root:
            return root.parent, root.name
        if root in path_below.parents:
            return root, str(path_below.relative_to(root))
    raise NotMemoryError(
        f"{path!r} is not in the memory. Give MEMORY.md, a file in memory/, or a path that"
        " memory_search found."
    )


def read_lines(
    location: tuple[Path, str], path: str, start: int, lines: int | None, rules: FileRules | None
) -> MemoryText:
    """Returns lines of the file from `start`; a missing file is empty, with a hint. Blocks.

    Raises:
        NotMemoryError: the path leads through a link, or to something else than a regular file.
    """
    root, name = location
    if root.is_symlink() and not is_memory(path):
        raise NotMemoryError(f"{path!r} is not read: the path leads through a symbolic link.")
    try:
        with RootedFolder(root, rules).open(name) as file:
            return window(path, _lines(file), start, lines)
    except (FileNotFoundError, NotADirectoryError):
        hint = "This file does not exist. memory_search, or `skerry memory files`, lists the files."
        return MemoryText(path, "", start, hint=hint)
    except EscapeError as error:
        raise NotMemoryError(f"{path!r} is not read: {error.reason}.") from error
    except OSError as error:
        raise NotMemoryError(f"{path!r} is not read: {error.strerror}.") from error


def provenance_of(note: Note, start: int = 1) -> MemoryProvenance:
    """Returns the provenance of a note in a text that begins at line `start` (pure)."""
    provenance, line = note.provenance, note.last + start - 1
    return MemoryProvenance(
        note.id, line, provenance.origin, provenance.conversation, provenance.at, note.is_edited
    )


def window(path: str, lines: Iterator[str], start: int, count: int | None) -> MemoryText:
    """Returns the requested lines, up to `MAX_CHARS` characters (pure)."""
    texts: list[str] = []
    remaining = MAX_CHARS
    end = None if count is None else start - 1 + count
    for number, line in enumerate(islice(lines, start - 1, end), start):
        remaining -= len(line) + 1
        if remaining < 0:
            return MemoryText(path, "\n".join(texts), start, next_line=number)
        texts.append(line)
    hint = "" if texts else f"Line {start} does not exist."
    return MemoryText(path, "\n".join(texts), start, hint=hint)


def _lines(file: BinaryIO) -> Iterator[str]:
    while line := file.readline(LINE_BYTES):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        while not line.endswith(b"\n") and (line := file.readline(LINE_BYTES)):
            pass
        yield text
