"""Parses the output of QMD: strict JSON, paths, and the lines of a passage."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from skerry.features.memory.qmd_collections import QmdCollection
from skerry.features.memory.qmd_filter import dated
from skerry.features.memory.qmd_process import QmdError
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.memory import MemoryHit, MemorySource

PREFIX: Final = "qmd/"
_HEADER: Final = re.compile(r"@@ -(\d{1,9}),(\d{1,9})")
_FILE: Final = re.compile(r"qmd://([^/]+)/(.+)", re.DOTALL)
_MAX_REASON: Final = 300
"""Limit on the characters of a server's message in an error."""
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Limit on the bytes read from a file; the size limit of the built-in memory."""


class Result(msgspec.Struct, frozen=True):
    """One hit in QMD's format; other fields are ignored."""

    docid: str
    score: float
    file: str
    snippet: str = ""
    line: int = 1
    title: str = ""
    body: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


class _Content(msgspec.Struct, frozen=True):
    text: str = ""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    structured_content: _Results | None = None
    is_error: bool = False
    content: list[_Content] = []


@dataclass(frozen=True, slots=True)
class PassageLocation:
    """Collection and file of a hit."""

    collection: QmdCollection
    relative: str
    """Path of the file in the collection."""

    @property
    def path(self) -> str:
        """Returns its name in the memory tools: `qmd/<collection>/<path>`."""
        return f"{PREFIX}{self.collection.name}/{self.relative}"


def printed(data: bytes) -> list[Result]:
    """Parses the hits that a command printed.

    Raises:
        QmdError: the output is not exactly the expected JSON.
    """
    try:
        return msgspec.json.decode(data, type=list[Result])
    except UNREADABLE as error:
        raise _strict(error) from error


def answered(data: bytes) -> list[Result]:
    """Parses the hits in an answer of the server, whose paths are `<collection>/<path>`.

    Raises:
        QmdError: the answer is not the expected JSON, or is an error.
    """
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except UNREADABLE as error:
        raise _strict(error) from error
    if answer.is_error:
        text = " ".join(part.text for part in answer.content)[:_MAX_REASON]
        raise QmdError(f"QMD's server did not search: {text}")
    if answer.structured_content is None:
        raise _strict("no results")
    results = answer.structured_content.results
    return [replace(result, file=f"qmd://{result.file}") for result in results]


def location_of(file: str, collections: Mapping[str, QmdCollection]) -> PassageLocation | None:
    """Parses `qmd://<collection>/<path>`; None for an unknown collection."""
    match = _FILE.fullmatch(file)
    collection = collections.get(match[1]) if match else None
    return PassageLocation(collection, match[2]) if match and collection else None


def located(path: str, collections: Mapping[str, QmdCollection]) -> PassageLocation | None:
    """Parses `qmd/<collection>/<path>`; None for another path."""
    if not path.startswith(PREFIX):
        return None
    return location_of(f"qmd://{path.removeprefix(PREFIX)}", collections)


def lines(result: Result) -> tuple[int, int]:
    """Returns the first and the last line of the passage, counted from 1."""
    match = _HEADER.search(result.snippet)
    if match is None:
        return max(1, result.line), max(1, result.line)
    start = max(1, int(match[1]))
    return start, start + max(1, int(match[2])) - 1


def hits(
    results: Iterable[Result],
    collections: Mapping[str, QmdCollection],
    sessions: Mapping[str, str] | None = None,
) -> Iterator[MemoryHit]:
    """Yields each hit once, with the present text of its file. Blocks: reads the files.

    QMD's index may be older than the files and must not return erased text. A file that was
    deleted, that is not a regular Markdown file in its collection, or that is behind a link yields
    nothing. `sessions` has the session keys by file name.
    """
    paths = set()
    for result in results:
        location = location_of(result.file, collections)
        if location is None:
            continue
        real = location.collection.root / location.relative
        if real in paths:
            continue
        paths.add(real)
        start, end = lines(result)
        start, text, at = passage(location, start, end)
        if text:
            yield MemoryHit(
                location.path,
                start,
                start + text.count("\n"),
                min(1.0, max(0.0, result.score)),
                text,
                location.collection.source,
                at=at,
                session=_session(location, sessions or {}),
            )


def file_text(location: PassageLocation) -> str | None:
    """Returns the text of a file, at most its first 4 MiB; None if it may not be read."""
    content = _read(location)
    return None if content is None else content[0]


def passage(location: PassageLocation, start: int, end: int) -> tuple[int, str, int]:
    """Returns the number of the first line, the text without outer empty lines, and the date.

    The text is empty if the file has no such lines, or may not be read.
    """
    file = _read(location)
    if file is None:
        return start, "", 0
    text, changed = file
    text_lines = [line.rstrip("\r") for line in text.split("\n")[start - 1 : end]]
    while text_lines and not text_lines[0].strip():
        text_lines, start = text_lines[1:], start + 1
    return start, "\n".join(text_lines).rstrip(), dated(location.relative, changed)


def _read(location: PassageLocation) -> tuple[str, int] | None:
    """Returns the text of a Markdown file in its collection, and its time of change in ms."""
    if not location.relative.lower().endswith(".md"):
        return None
    try:
        with RootedFolder(location.collection.root).open(location.relative) as file:
            changed = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
            return file.read(_MAX_BYTES).decode(errors="replace"), changed
    except (EscapeError, OSError):
        return None


def _session(location: PassageLocation, sessions: Mapping[str, str]) -> str | None:
    of_sessions = location.collection.source is MemorySource.SESSIONS
    return sessions.get(location.relative) if of_sessions else None


def _strict(error: Exception | str) -> QmdError:
    return QmdError(f"QMD's output is not the expected JSON: {error}.")
