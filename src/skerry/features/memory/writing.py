"""Writes notes into the files of the memory, and removes them."""

import errno
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.features.memory.notes import Note, notes, with_note, without_note
from skerry.infra.rooted_fs import Change, EscapeError, FileRules, RootedFolder
from skerry.model.memory import MemoryBackendError, MemoryNoted, MemoryUndone
from skerry.model.provenance import Provenance, item, tidy

MAX_CHARS: Final = 4000
"""Limit on the characters of a note."""
MAX_BYTES: Final = 1024 * 1024
"""Size limit of a file that notes are written to."""
LONG_TERM: Final = "MEMORY.md"
MAX_LOGS: Final = 4000
"""Limit on the daily logs that are searched for a note, the newest first."""
_TRIES: Final = 3
"""Attempts when somebody else writes the same file."""


class NoteError(MemoryBackendError):
    """A note was not written or not removed; the message has the reason."""

    code = "memory.note"


class Notebook(Struct, frozen=True):
    """The notes in the files of one agent. Its methods block."""

    workspace: Path
    rules: FileRules | None

    def write(
        self, text: str, section: str | None, provenance: Provenance, today: date
    ) -> MemoryNoted:
        """Appends a note to the log of the day, or to a section of MEMORY.md.

        The same note in the same minute is written once.

        Raises:
            NoteError: the text is empty or too long, or the file cannot be written.
        """
        text, section = tidy(text), " ".join(section.split()) if section else None
        if not text or len(text) > MAX_CHARS:
            raise NoteError(f"A note has 1 to {MAX_CHARS} characters; this one has {len(text)}.")
        path = LONG_TERM if section else f"memory/{today}.md"
        lines, name = item(text, provenance), provenance.id_of(text)
        line_number = 0

        def change(old: bytes | None) -> bytes:
            nonlocal line_number
            content = _text(old)
            duplicate = next((note for note in notes(content) if note.id == name), None)
            if duplicate is not None:
                line_number = duplicate.first
                return old or b""
            new, line_number = with_note(content, lines, section)
            return new.encode()

        self._change(path, change)
        return MemoryNoted(name, path, line_number, line_number + len(lines) - 1)

    def undo(self, name: str) -> MemoryUndone:
        """Removes the note with the id `name`.

        Raises:
            NoteError: it does not exist, or was changed by hand.
        """
        for path, note in self.all():
            if note.id == name:
                return self._take_out(path, note)
        raise NoteError(f"Note {name} does not exist; it may have been removed by hand.")

    def all(self) -> Iterator[tuple[str, Note]]:
        """Yields the notes of MEMORY.md, then of the logs, the newest first."""
        folder = self.workspace / "memory"
        logs = sorted((*folder.glob("*.md"), *folder.glob("unverified/*.md")), reverse=True)
        names = (log.relative_to(self.workspace).as_posix() for log in logs[:MAX_LOGS])
        for path in (LONG_TERM, *names):
            try:
                with RootedFolder(self.workspace, self.rules).open(path) as file:
                    content = _text(file.read(MAX_BYTES))
            except (EscapeError, OSError, NoteError):
                continue  # it contains no notes
            for note in notes(content):
                yield path, note

    def _take_out(self, path: str, note: Note) -> MemoryUndone:
        def change(old: bytes | None) -> bytes:
            content = _text(old)
            present = next(
                (candidate for candidate in notes(content) if candidate.id == note.id), None
            )
            if present is None:
                raise NoteError(f"Note {note.id} was just removed from {path}.")
            if present.is_edited:
                raise NoteError(
                    f"Note {note.id} was changed by hand. Remove it by hand from {path}, line"
                    f" {present.first}."
                )
            return without_note(content, present).encode()

        self._change(path, change)
        return MemoryUndone(note.id, path, note.text)

    def _change(self, path: str, change: Change) -> None:
        folder = RootedFolder(self.workspace, self.rules)
        for tries_left in reversed(range(_TRIES)):
            try:
                folder.replace(path, change, max_bytes=MAX_BYTES)
            except EscapeError as error:
                raise NoteError(f"{path} is not written: {error.reason}.") from error
            except OSError as error:
                if error.errno != errno.ESTALE or not tries_left:
                    raise NoteError(f"{path} is not written: {error.strerror}.") from error
            else:
                return


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoteError("The file is not changed: it is not UTF-8 text.") from error
