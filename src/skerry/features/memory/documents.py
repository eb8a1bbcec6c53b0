"""Indexed documents: a text with its path and date, and its division into passages (pure)."""

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
"""Tokens of a passage, and tokens that it shares with the next one (decisions 6, row 3)."""

_DATED: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2}).*\.md", re.DOTALL)


class Stamp(Struct, frozen=True, gc=False):
    """State of a file, compared to detect changes without reading it. Times in ns since 1970."""

    size: int
    mtime: int
    ctime: int
    settled: bool = True
    """False when the file changed so shortly before it was read that another change may have the
    same times."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, or the transcript of a conversation."""

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
    """Position in a conversation from which it is read again when it has grown."""

    block: int
    """Number of the last block. Earlier blocks are full and do not change."""
    position: int = 0
    """Number of passages before that block."""
    line: int = 0
    """Number of lines before that block."""


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A passage of a document, without a row number."""

    position: int
    content: str
    start_line: int
    end_line: int
    tokens: int
    hash: str
    at: int | None


def passages_of(
    document: Document, size: int = SIZE, overlap: int = OVERLAP
) -> list[DocumentPassage]:
    """Returns the passages of a document in order; `size` and `overlap` in tokens."""
    return passages_from_chunks(document, chunks(document.text, size=size, overlap=overlap))


def passages_from_chunks(document: Document, cut: Sequence[Chunk]) -> list[DocumentPassage]:
    """Returns the passages for the chunks of a document."""
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
    """Returns the start of the day of a daily log (`memory/YYYY-MM-DD*.md`), in ms since 1970.

    `zone` is an IANA name, None the zone of this machine. Returns None for every other file: it
    does not age (seed 003, temporal decay).
    """
    folder, _, name = path.rpartition("/")
    match = _DATED.fullmatch(name) if "memory" in folder.split("/") else None
    if match is None:
        return None
    try:
        return begin(date(int(match[1]), int(match[2]), int(match[3])), zone)
    except (ValueError, OverflowError):
        return None  # a name such as 2026-02-31 is not a date


def digest(text: str) -> str:
    """Returns the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
