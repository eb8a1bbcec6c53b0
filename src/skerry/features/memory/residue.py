"""Finds what SQLite left of deleted rows between the cells of its pages.

`PRAGMA secure_delete` overwrites what is deleted, and pages that become free. What it does not
overwrite are copies that a page keeps in the room between its pointers and its cells, when cells
move to a neighbour (`rebuildPage` of SQLite). This looks there; the file is to be written anew
where something is found.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_TABLE, _INDEX = 13, 10
"""Kinds of pages with content; others hold numbers, or what is too long for one of these."""
_AT_ONCE: Final = 1024
"""Pages that are read at once: 4 MB."""
WINDOW: Final = 16
"""Bytes of a text or vector that are looked for together."""
MOST: Final = 200
"""Texts and vectors up to which it is cheaper to look than to write the file anew."""


def is_left(path: Path, pieces: Sequence[bytes]) -> bool:
    """Returns whether the file has some of the pieces, or is to be written anew without a look."""
    if len(pieces) > MOST:
        return True
    windows = {window for piece in pieces for window in _windows(piece.lower())}
    return any(window in gap for gap in gaps(path) for window in windows)


def gaps(path: Path) -> Iterator[bytes]:
    """Yields what is between the cells of pages, in small letters, for some pages at a time."""
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


def _windows(piece: bytes) -> Iterator[bytes]:
    """Yields parts of a piece, of which a rest of it that is twice as long has one."""
    for at in range(0, max(1, len(piece) - WINDOW + 1), WINDOW):
        yield piece[at : at + WINDOW]
