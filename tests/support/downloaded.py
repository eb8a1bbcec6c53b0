"""Files with words of others, as the records of a gateway have them."""

from hashlib import sha256
from pathlib import Path

from skerry.model.origin import Origin
from skerry.policy.file_records import FileRecord, FileRecords


def downloaded(records: FileRecords, path: Path, text: str) -> None:
    """Makes a file as a run leaves it that had read a page of the web."""
    data, web = text.encode(), frozenset({Origin.WEB})
    path.write_bytes(data)
    record = FileRecord(str(path.resolve()), sha256(data).digest(), len(data), "main", web)
    records.note(record)
