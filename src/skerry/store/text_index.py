"""All statements of the full-text index over entries, which is FTS5 of SQLite."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from skerry.store.unit import Reader, Unit


def matching(
    reader: Reader,
    phrase: str,
    serials: Collection[int],
    until: tuple[int, int],
    limit: int,
) -> Iterator[int]:
    """Yields the rowids of entries with the phrase, the newest first.

    Args:
        reader: Reader of the store.
        phrase: Query in the syntax of FTS5.
        serials: Serials of the searched sessions.
        until: Serial of a session, and the rowid from which on its entries are excluded.
        limit: Limit on the rows.
    """
    until_serial, first = until
    rows = reader.each(
        "SELECT rowid FROM entry_text WHERE entry_text MATCH ?"
        " AND rowid >> 32 IN (SELECT value FROM json_each(?))"
        " AND NOT (rowid >= ? AND rowid >> 32 = ?)"
        " ORDER BY rowid DESC LIMIT ?",
        (phrase, msgspec.json.encode(list(serials)).decode(), first, until_serial, limit),
    )
    return (rowid for (rowid,) in rows)


def add(unit: Unit, rows: Iterable[tuple[int, str]]) -> None:
    """Indexes texts by their rowids."""
    unit.executemany("INSERT INTO entry_text (rowid, text) VALUES (?, ?)", rows)


def remove(unit: Unit, rows: Iterable[tuple[int, str]]) -> None:
    """Removes texts from the index; each must be equal to the indexed text."""
    unit.executemany(
        "INSERT INTO entry_text (entry_text, rowid, text) VALUES ('delete', ?, ?)", rows
    )


def merge(unit: Unit) -> None:
    """Merges the index into one segment without the removed texts."""
    unit.execute("INSERT INTO entry_text (entry_text) VALUES ('optimize')")
