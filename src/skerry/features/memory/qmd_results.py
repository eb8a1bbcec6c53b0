"""Reads what QMD answers: strict JSON, paths, the lines of a passage."""

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
"""Characters of what the server says that an error repeats."""
_MOST_BYTES: Final = 4 * 1024 * 1024
"""Size limit of a file that a passage is read from; the same as for the built-in memory."""


class Result(msgspec.Struct, frozen=True):
    """One hit as QMD writes it; other fields are passed over."""

    docid: str
    score: float
    file: str
    snippet: str = ""
    line: int = 1
    title: str = ""
    body: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


class _Said(msgspec.Struct, frozen=True):
    text: str = ""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    structured_content: _Results | None = None
    is_error: bool = False
    content: list[_Said] = []


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """Collection and file of a hit."""

    collection: QmdCollection
    relative: str
    """The file, from the root of the collection."""

    @property
    def path(self) -> str:
        """Returns its name in the memory tools: `qmd/<collection>/<path>`."""
        return f"{PREFIX}{self.collection.name}/{self.relative}"


def printed(data: bytes) -> list[Result]:
    """Returns the hits that a command printed.

    Raises:
        QmdError: it is not the JSON that was asked for, and that alone.
    """
    try:
        return msgspec.json.decode(data, type=list[Result])
    except UNREADABLE as error:
        raise _strict(error) from error


def answered(data: bytes) -> list[Result]:
    """Returns the hits in an answer of the server, whose paths are `<collection>/<path>`.

    Raises:
        QmdError: it is not JSON of the known form, or an error.
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


def place_of(file: str, collections: Mapping[str, QmdCollection]) -> PassagePlace | None:
    """Returns the path of `qmd://<collection>/<path>`; None for a collection of others."""
    match = _FILE.fullmatch(file)
    collection = collections.get(match[1]) if match else None
    return PassagePlace(collection, match[2]) if match and collection else None


def located(path: str, collections: Mapping[str, QmdCollection]) -> PassagePlace | None:
    """Returns where `qmd/<collection>/<path>` is; None where it is no such path."""
    if not path.startswith(PREFIX):
        return None
    return place_of(f"qmd://{path.removeprefix(PREFIX)}", collections)


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
    """Yields each hit once, with the text that its file has now. Blocks: it reads the files.

    QMD's index is behind the files: what was forgotten a moment ago must not come back from it. A
    file that is gone, that is no plain Markdown file beneath its collection, or that a link leads
    to, gives nothing. `sessions` has the key of each conversation by the name of its file.
    """
    seen = set()
    for result in results:
        where = place_of(result.file, collections)
        if where is None:
            continue
        real = where.collection.root / where.relative
        if real in seen:
            continue
        seen.add(real)
        start, end = lines(result)
        start, text, at = passage(where, start, end)
        if text:
            yield MemoryHit(
                where.path,
                start,
                start + text.count("\n"),
                min(1.0, max(0.0, result.score)),
                text,
                where.collection.source,
                at=at,
                session=_session(where, sessions or {}),
            )


def file_text(where: PassagePlace) -> str | None:
    """Returns the text of a file, of a large one its first 4 MiB; None where it may not be read."""
    content = _read(where)
    return None if content is None else content[0]


def passage(where: PassagePlace, start: int, end: int) -> tuple[int, str, int]:
    """Returns the first line's number, the lines less empty ones around them, and the file's date.

    The text is empty where the file has no such lines, or may not be read.
    """
    file = _read(where)
    if file is None:
        return start, "", 0
    text, changed = file
    text_lines = [line.rstrip("\r") for line in text.split("\n")[start - 1 : end]]
    while text_lines and not text_lines[0].strip():
        text_lines, start = text_lines[1:], start + 1
    return start, "\n".join(text_lines).rstrip(), dated(where.relative, changed)


def _read(where: PassagePlace) -> tuple[str, int] | None:
    """Returns the text of a plain Markdown file beneath its collection, and when it changed."""
    if not where.relative.lower().endswith(".md"):
        return None
    try:
        with RootedFolder(where.collection.root).open(where.relative) as file:
            changed = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
            return file.read(_MOST_BYTES).decode(errors="replace"), changed
    except (EscapeError, OSError):
        return None


def _session(where: PassagePlace, sessions: Mapping[str, str]) -> str | None:
    of_sessions = where.collection.source is MemorySource.SESSIONS
    return sessions.get(where.relative) if of_sessions else None


def _strict(error: Exception | str) -> QmdError:
    return QmdError(f"QMD's output is not the expected JSON: {error}.")
