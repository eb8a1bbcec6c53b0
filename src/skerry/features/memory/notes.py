"""Finds, adds and removes notes in Markdown (pure).

The file is the only storage: it may be edited, moved and copied, and the provenance of a note is in
it (`model.provenance`).
"""

import re
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from skerry.model.origin import Origin
from skerry.model.provenance import BULLET, INDENT, MARK, Provenance

_HEADING: Final = re.compile(r"(#{1,6})[ \t]++(.*)")
_ORIGINS: Final = {origin.value: origin for origin in Origin}
_FENCE: Final = ("```", "~~~")


class Note(Struct, frozen=True):
    """A note in a file."""

    id: str
    text: str
    provenance: Provenance
    first: int
    """Number of its first line, from 1."""
    last: int

    @property
    def is_edited(self) -> bool:
        """Returns whether the text was changed since the note was written."""
        return self.provenance.id_of(self.text) != self.id


def notes(content: str) -> list[Note]:
    """Returns the notes of a file, in its order. A list item without a mark is not a note."""
    lines = content.splitlines()
    notes_of_file = []
    for number, line in enumerate(lines):
        mark = MARK.search(line)
        if mark is None:
            continue
        first = number
        while first > 0 and lines[first].startswith(INDENT):
            first -= 1
        body = [*lines[first:number], line[: mark.start()]]
        text = "\n".join(part.strip() for part in body).removeprefix(BULLET)
        origin = _ORIGINS.get(mark["origin"], Origin.STRANGER)
        provenance = Provenance(origin, unquote(mark["conversation"]), mark["at"])
        notes_of_file.append(Note(mark["id"], text, provenance, first + 1, number + 1))
    return notes_of_file


def with_note(content: str, lines: list[str], section: str | None) -> tuple[str, int]:
    """Returns the content with lines added at its end or that of a section, and their first line.

    A missing section is added. The other lines are unchanged.
    """
    present = content.splitlines()
    if section is None:
        return _joined([*present, *lines]), len(present) + 1
    end = _end_of(present, section)
    if end is None:
        gap = [""] if present and present[-1].strip() else []
        head = [*present, *gap, f"## {section}", ""]
        return _joined([*head, *lines]), len(head) + 1
    return _joined([*present[:end], *lines, *present[end:]]), end + 1


def without_note(content: str, note: Note) -> str:
    """Returns the content without the note."""
    lines = content.splitlines()
    return _joined([*lines[: note.first - 1], *lines[note.last :]])


def _end_of(lines: list[str], section: str) -> int | None:
    """Returns the index after the last non-empty line of the section; None if it is missing."""
    level, end = 0, None
    fenced = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading is None:
            if level and line.strip():
                end = number + 1
        elif level and len(heading[1]) <= level:
            return end
        elif not level and heading[2].rstrip(" \t#").casefold() == section.casefold():
            level, end = len(heading[1]), number + 1
        elif level:
            end = number + 1
    return end


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
