"""Erases statements from Markdown files, with the notes that consist of them."""

import errno
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.markdown_files import (
    MAX_BYTES,
    UnreadableError,
    decoded,
    encoded,
    outside,
    read,
    scan,
)
from skerry.features.memory.notes import Note, notes
from skerry.infra.rooted_fs import EscapeError, FileRules, RootedFolder
from skerry.model.provenance import item, tidy
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import ForgottenLine

_TRIES: Final = 3
"""Attempts when somebody else writes the same file."""
_MAX_SHOWN: Final = 1000
"""Limit on the characters of a statement in a report."""
_LINE_END: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Lines that were removed from the files, or would be."""

    lines: Sequence[ForgottenLine]
    remaining: Sequence[tuple[str, str]]
    """Files that still contain a phrase, each with the reason."""


@dataclass(frozen=True, slots=True)
class FileEraser:
    """Erases statements from the files of one agent. Its methods block."""

    paths: MemoryPaths
    also: Collection[str]
    """Further files at the top of the workspace, which each run reads."""
    rules: FileRules | None
    extra: bool = False
    """True to change the extra paths too; otherwise they are only read."""

    def find(self, redaction: Redaction) -> Cleaning:
        """Returns the matches, without changing a file."""
        own_files, shared, failed_paths = self._holding(redaction)
        lines = [line for path, text in own_files for line in _lines(path, text, redaction)]
        return Cleaning(lines, [*failed_paths, *((path, _EXTRA) for path, _ in shared)])

    def clean(self, redaction: Redaction) -> Cleaning:
        """Erases the matches; each file is replaced atomically and keeps its mode."""
        own_files, shared, failed = self._holding(redaction)
        unchanged = [*failed, *((path, _EXTRA) for path, _ in shared)]
        lines: list[ForgottenLine] = []
        for path, text in own_files:
            lines_of_file = list(_lines(path, text, redaction))
            try:
                self._rewrite(path, redaction)
            except (EscapeError, UnreadableError, OSError) as error:
                unchanged.append((path, _reason(error)))
            else:
                lines += lines_of_file
        return Cleaning(lines, unchanged)

    def _holding(
        self, redaction: Redaction
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
        """Returns path and text of own files with a match and of shared ones, and failed paths."""
        present = scan(self.paths)
        own_paths = set(scan(MemoryPaths(self.paths.workspace)).stamps)
        unread = [*present.failed, *present.linked]
        texts: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        paths = [*present.stamps, *(path for path in self.also if path not in present.stamps)]
        unaffected = set(self._unaffected(paths, redaction))
        for path in paths:
            if path in unaffected:
                continue
            try:
                text, _, _ = read(self.paths, path, time.time_ns())
            except UnreadableError as error:
                if path in present.stamps:
                    unread.append((path, str(error)))
                continue
            if redaction.holds(text):
                is_own = self.extra or path in own_paths or path in self.also
                texts[not is_own].append((path, text))
        return *texts, unread

    def _unaffected(self, paths: Sequence[str], redaction: Redaction) -> Iterator[str]:
        """Yields ASCII files without any of the phrases; comparing their bytes is fast."""
        if not all(needle.isascii() for needle in redaction.needles):
            return
        needles = [needle.encode() for needle in redaction.needles]
        in_workspace = (path for path in paths if not path.startswith("/"))
        for path, data in RootedFolder(self.paths.workspace).contents(in_workspace, MAX_BYTES):
            if data.isascii() and b"\0" not in data:
                small = data.lower()
                if not any(needle in small for needle in needles):
                    yield path

    def _rewrite(self, path: str, redaction: Redaction) -> None:
        folder, name = self.paths.workspace, path
        if path.startswith("/"):
            folder, name = outside(self.paths, path)

        def change(old: bytes | None) -> bytes:
            if old is None:
                raise UnreadableError("it was deleted meanwhile")
            text, encoding = decoded(old)
            return encoded(without_statements(text, redaction), encoding)

        for tries_left in reversed(range(_TRIES)):
            try:
                RootedFolder(folder, self.rules).replace(name, change, max_bytes=MAX_BYTES)
            except OSError as error:
                if error.errno != errno.ESTALE or not tries_left:
                    raise
            else:
                return


_EXTRA: Final = "it is in an extra path, which other programs may use too"


def without_statements(content: str, redaction: Redaction) -> str:
    """Returns the Markdown without the statements (pure).

    A note of one line is removed with its mark, and so is a longer note without further text;
    another note gets a new id, since the id is a hash of the text.
    """
    lines = content.splitlines(keepends=True)
    for note in reversed(notes(content)):
        if not redaction.holds(note.text):
            continue
        remaining = "" if _is_short(note) else tidy(redaction.document(note.text))
        end = "\r\n" if lines[note.last - 1].endswith("\r\n") else "\n"
        rewritten = [line + end for line in item(remaining, note.provenance)] if remaining else []
        lines[note.first - 1 : note.last] = rewritten
    return redaction.document("".join(lines))


def _is_short(note: Note) -> bool:
    return "\n" not in note.text


def _lines(path: str, text: str, redaction: Redaction) -> Iterator[ForgottenLine]:
    """Yields the statements that `without_statements` removes, in the order of the file."""
    lines = text.splitlines(keepends=True)
    numbered: list[tuple[int, str]] = []
    for note in notes(text):
        if not redaction.holds(note.text):
            continue
        if _is_short(note):
            numbered.append((note.first, note.text))
        else:
            inner = _statements(note.text, redaction)
            numbered += [(note.first + number - 1, statement) for number, statement in inner]
        lines[note.first - 1 : note.last] = ["\n"] * (note.last - note.first + 1)
    numbered += _statements("".join(lines), redaction)
    for number, statement in sorted(numbered, key=lambda each: each[0]):
        excerpt = " ".join(statement.split())
        yield ForgottenLine(
            path, number, excerpt if len(excerpt) <= _MAX_SHOWN else f"{excerpt[:_MAX_SHOWN]}…"
        )


def _statements(text: str, redaction: Redaction) -> Iterator[tuple[int, str]]:
    """Yields the statements, each with the number of its first line, from 1."""
    number, last = 1, 0
    for begin, end in redaction.spans(text):
        number += sum(1 for _ in _LINE_END.finditer(text, last, begin))
        last = begin
        yield number, text[begin:end]


def _reason(error: Exception) -> str:
    match error:
        case EscapeError():
            return error.reason
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
