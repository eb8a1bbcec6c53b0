"""Notes in Markdown that say who said them, where and when (pure).

A note is an item of a list, and at its end stands a comment that nobody sees who reads the file as
Markdown: `- The text. <!-- skerry:4f2a9c01be owner agent:main:main 2026-11-22T08:24Z -->`. So the
file stays the only truth: it may be edited, moved and copied, and what is known of a note goes with
it. The id is made of all the rest, so that a note that was changed by hand is seen to be changed.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

from skerry.memory.results import MARK, clean
from skerry.model.origin import Origin

_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t#]*")
_ORIGINS: Final = {one.value: one for one in Origin}
_FENCE: Final = ("```", "~~~")
_ITEM: Final = "- "
_INDENT: Final = "  "
ID: Final = r"^[0-9a-f]{10}$"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who said a note, where and when."""

    origin: Origin
    where: str
    """The key of the conversation; `gateway` for a person at the gateway itself."""
    at: str
    """Such as `2026-11-22T08:24Z`."""

    @classmethod
    def now(cls, origin: Origin, where: str, now_ms: int) -> "Provenance":
        """Return what is known of a note that is made now."""
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        return cls(origin, where, f"{at:%Y-%m-%dT%H:%MZ}")

    def id_of(self, text: str) -> str:
        """Return the id of the text as a note."""
        parts = f"{self.origin}\0{self.where}\0{self.at}\0{text}"
        return sha256(parts.encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it stands in a file."""

    id: str
    text: str
    provenance: Provenance
    first: int
    """Its lines, from 1."""
    last: int

    @property
    def is_edited(self) -> bool:
        """Return whether somebody changed its words since it was made."""
        return self.provenance.id_of(self.text) != self.id


def tidy(text: str) -> str:
    """Return the text as a note can hold it: no empty lines, no comment of its own."""
    lines = (one.strip() for one in clean(text).splitlines())
    return "\n".join(one for one in lines if one).replace("<!--", "&lt;!--")


def item(text: str, provenance: Provenance) -> list[str]:
    """Return the lines of a note; `text` is tidy."""
    where = quote(provenance.where, safe=":-_.@+")
    mark = f"<!-- skerry:{provenance.id_of(text)} {provenance.origin} {where} {provenance.at} -->"
    first, *rest = text.split("\n")
    lines = [_ITEM + first, *(_INDENT + one for one in rest)]
    return [*lines[:-1], f"{lines[-1]} {mark}"]


def notes(content: str) -> list[Note]:
    """Return the notes of a file, in its order. An item without a comment is none."""
    lines = content.splitlines()
    found = []
    for number, line in enumerate(lines):
        mark = MARK.search(line)
        if mark is None:
            continue
        first = number
        while first > 0 and lines[first].startswith(_INDENT):
            first -= 1
        body = [*lines[first:number], line[: mark.start()]]
        text = "\n".join(one.strip() for one in body).removeprefix(_ITEM)
        origin = _ORIGINS.get(mark["origin"], Origin.STRANGER)
        said = Provenance(origin, unquote(mark["where"]), mark["at"])
        found.append(Note(mark["id"], text, said, first + 1, number + 1))
    return found


def added(content: str, lines: list[str], section: str | None) -> tuple[str, int]:
    """Return the content with the lines at the end, or at the end of a section, and their place.

    A section that is not there yet is made. What stands there already stays as it is.
    """
    present = content.splitlines()
    if section is None:
        return _joined([*present, *lines]), len(present) + 1
    place = _end_of(present, section)
    if place is None:
        gap = [""] if present and present[-1].strip() else []
        head = [*present, *gap, f"## {section}", ""]
        return _joined([*head, *lines]), len(head) + 1
    return _joined([*present[:place], *lines, *present[place:]]), place + 1


def without(content: str, note: Note) -> str:
    """Return the content without the note."""
    lines = content.splitlines()
    return _joined([*lines[: note.first - 1], *lines[note.last :]])


def _end_of(lines: list[str], section: str) -> int | None:
    """Return the index behind the last line of the section that is not empty."""
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
        elif not level and heading[2].casefold() == section.casefold():
            level, end = len(heading[1]), number + 1
        elif level:
            end = number + 1
    return end


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
