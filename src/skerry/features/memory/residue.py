"""Finds remains of deleted rows between the cells of SQLite's pages.

`PRAGMA secure_delete` overwrites deleted cells and freed pages. It does not overwrite the copies
that a page keeps between its pointers and its cells when cells move to a neighbour (`rebuildPage`
of SQLite). This module searches these gaps; if it finds a fragment, the file must be rewritten.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_TABLE, _INDEX = 13, 10
"""Types of leaf pages with content; other pages have numbers, or the overflow of long cells."""
_AT_ONCE: Final = 1024
"""Number of pages per read: 4 MB."""
WINDOW: Final = 16
"""Length in bytes of the parts of a text or vector that are searched."""
MAX_FRAGMENTS: Final = 200
"""Number of texts and vectors up to which a search costs less than rewriting the file."""


def has_residue(path: Path, fragments: Sequence[bytes]) -> bool:
    """Returns whether the file has a fragment; also True if there are too many to search."""
    if len(fragments) > MAX_FRAGMENTS:
        return True
    windows = {window for fragment in fragments for window in _windows(fragment.lower())}
    return any(window in gap for gap in gaps(path) for window in windows)


def gaps(path: Path) -> Iterator[bytes]:
    """Yields the bytes between the cells of pages, in lower case, for some pages at a time."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(18)[16:18], "big")
        size = 65536 if size == 1 else size
        if not size:
            return  # an empty file
        file.seek(size)  # the first page describes the tables
        while data := file.read(_AT_ONCE * size):
            blocks = [_gap(data[at : at + size]) for at in range(0, len(data), size)]
            page_gaps = b"\0".join(filter(None, blocks))
            if page_gaps:
                yield page_gaps.lower()


def _gap(page: bytes) -> bytes:
    if page[0] not in {_TABLE, _INDEX}:
        return b""
    begin = 8 + 2 * int.from_bytes(page[3:5], "big")
    end = int.from_bytes(page[5:7], "big") or 65536
    return page[begin:end].strip(b"\0")


def _windows(fragment: bytes) -> Iterator[bytes]:
    """Yields parts of a fragment; any remainder of twice `WINDOW` bytes contains one of them."""
    for at in range(0, max(1, len(fragment) - WINDOW + 1), WINDOW):
        yield fragment[at : at + WINDOW]
