"""Records of the authors of workspace files (`policy.file_records`)."""

from collections.abc import Iterable

from skerry.model.origin import Origin
from skerry.policy.file_records import FileRecord
from skerry.store.unit import Reader, Unit


def every(reader: Reader) -> list[FileRecord]:
    """Returns all records."""
    rows = reader.all("SELECT path, digest, size, who, taint FROM file_record")
    return [
        FileRecord(path, digest, size, author, _read(taint))
        for path, digest, size, author, taint in rows
    ]


def written_at(reader: Reader, path: str) -> int | None:
    """Returns the time of a file's record, in ms since 1970; None without a record."""
    row = reader.one("SELECT at FROM file_record WHERE path = ?", (path,))
    return row[0] if row else None


def keep(unit: Unit, record: FileRecord, now: int) -> None:
    """Stores the record of a file; it replaces the earlier one."""
    taint = " ".join(sorted(record.taint))
    row = (record.path, record.digest, record.size, record.writer, taint, now)
    unit.execute(
        "INSERT INTO file_record (path, digest, size, who, taint, at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, size = excluded.size,"
        " who = excluded.who, taint = excluded.taint, at = excluded.at",
        row,
    )


def old(reader: Reader, before: int, before_tainted: int) -> list[str]:
    """Returns the paths with a record older than `before`, or `before_tainted` for tainted ones."""
    rows = reader.all(
        "SELECT path FROM file_record WHERE (taint = '' AND at < ?) OR (taint <> '' AND at < ?)",
        (before, before_tainted),
    )
    return sorted(path for (path,) in rows)


def drop(unit: Unit, paths: Iterable[str]) -> None:
    """Removes records."""
    for path in paths:
        unit.execute("DELETE FROM file_record WHERE path = ?", (path,))


def _read(taint: str) -> frozenset[Origin]:
    """Parses the origins; an unknown origin counts as a stranger's."""
    origins = {origin.value: origin for origin in Origin}
    return frozenset(origins.get(word, Origin.STRANGER) for word in taint.split())
