"""Indexed documents: a text with its place and date, and its division into rows (pure)."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from msgspec import Struct

from skerry.infra.clock import begin
from skerry.model.memory import MemorySource
from skerry_recall.chunk import TOKEN, Chunk, chunks

SIZE: Final = 256
OVERLAP: Final = 32
"""Tokens of a passage, and those that it shares with the next (decisions 6, row 3)."""

_DATED: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2}).*\.md", re.DOTALL)


class Stamp(Struct, frozen=True, gc=False):
    """State of a file that shows without reading whether it changed. Times in ns since 1970."""

    size: int
    mtime: int
    ctime: int
    settled: bool = True
    """True when the times were old enough at the reading: a file written again within the grain of
    the clock looks the same."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, or what was said in a conversation."""

    path: str
    source: MemorySource
    text: str
    stamp: Stamp
    at: int | None = None
    """Its date in ms since 1970."""
    session: str | None = None
    """The key of the conversation."""
    times: Sequence[tuple[int, int]] = ()
    """Dates of its parts: the first line of each, ascending, and its time in milliseconds."""
    blocks: Sequence[tuple[int, int]] = ()
    """Blocks of a conversation: the first line of each, ascending, and its number."""

    @property
    def hash(self) -> str:
        """Returns the SHA-256 of the text, in hex."""
        return digest(self.text)


class Resume(Struct, frozen=True, gc=False):
    """Place in a conversation from which on it is read again when it has grown."""

    block: int
    """Number of its last block. Those before it are full and do not change."""
    place: int = 0
    """Number of passages before that block."""
    line: int = 0
    """Number of lines before it."""


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A passage as it stands in its document, before it has a number."""

    place: int
    content: str
    start_line: int
    end_line: int
    tokens: int
    hash: str
    at: int | None


def pieces(document: Document, size: int = SIZE, overlap: int = OVERLAP) -> list[DocumentPassage]:
    """Returns the passages of a document in order; `size` and `overlap` in tokens."""
    return pieces_of(document, chunks(document.text, size=size, overlap=overlap))


def pieces_of(document: Document, cut: Sequence[Chunk]) -> list[DocumentPassage]:
    """Returns the passages for what a document was cut into."""
    lines = [line for line, _ in document.times]

    def at(line: int) -> int | None:
        line_index = bisect_right(lines, line)
        return document.times[line_index - 1][1] if line_index else document.at

    return [
        DocumentPassage(
            number,
            chunk.text,
            chunk.start_line,
            chunk.end_line,
            -(-len(chunk.text) // TOKEN),
            digest(chunk.text),
            at(chunk.start_line),
        )
        for number, chunk in enumerate(cut)
    ]


def date_of(path: str, zone: str | None = None) -> int | None:
    """Returns when the day of a daily log (`memory/YYYY-MM-DD*.md`) began, in ms since 1970.

    `zone` is an IANA name, None the zone of this machine. None for every other file: it does not
    age (seed 003, temporal decay).
    """
    folder, _, name = path.rpartition("/")
    match = _DATED.fullmatch(name) if "memory" in folder.split("/") else None
    if match is None:
        return None
    try:
        return begin(date(int(match[1]), int(match[2]), int(match[3])), zone)
    except (ValueError, OverflowError):
        return None  # 2026-02-31 is a name, no date


def digest(text: str) -> str:
    """Returns the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
