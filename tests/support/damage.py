"""A database with a page that cannot be read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import BinaryIO


def break_pages(path: Path, table: str, *, most: int = 1) -> int:
    """Overwrite leaves in the middle of a table or an index.

    Returns how many pages are broken. Nobody may have the database open.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)
        ).fetchone()
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    with path.open("r+b") as file:
        leaves = _leaves(file, root, size)
        for page in leaves[len(leaves) // 2 :][:most]:
            file.seek((page - 1) * size)
            file.write(b"\xff" * size)
    return min(most, len(leaves))


def _leaves(file: BinaryIO, root: int, size: int) -> list[int]:
    """Returns the leaves below a page, left to right."""
    file.seek((root - 1) * size)
    page = file.read(size)
    if page[0] not in {2, 5}:  # interior of an index, of a table
        return [root]
    places = range(12, 12 + 2 * int.from_bytes(page[3:5]), 2)
    cells = [int.from_bytes(page[position : position + 2]) for position in places]
    below = [int.from_bytes(page[at : at + 4]) for at in (*cells, 8)]
    return [leaf for child in below for leaf in _leaves(file, child, size)]
