"""Records of the writers of workspace files, and of the origins of the text that they had read.

The state database stores them (`store.file_records`); here they are looked up. A path has one
record. A copy of a file with a tainted record is recognised by its content.
"""

import os
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from skerry.model.origin import Origin

HAND: Final = "hand"
"""Writer of a file that was changed outside the gateway, such as in the owner's editor."""


OWNER: Final = "owner"
"""Writer of a file that the owner saved or confirmed."""


class FileRecord(Struct, frozen=True):
    """The last content of a file that the gateway wrote, or read for a prompt."""

    path: str
    """Canonical absolute path; with a trailing `/` the record is for all files below."""
    digest: bytes
    """SHA-256 of the content."""
    size: int
    writer: str
    """Key of the conversation whose run wrote it; `gateway` for a person at the gateway, `owner` if
    the owner confirmed it, `hand` for an editor."""
    taint: frozenset[Origin]
    """Origins, other than the owner, of the text that the writer had read."""


def _unkept(_: FileRecord) -> None:
    """Stores nothing; the record is only in memory."""


class FileRecords:
    """All records. Several threads may use it: each step is one access to a mapping."""

    def __init__(
        self,
        records: Iterable[FileRecord] = (),
        keep: Callable[[FileRecord], object] = _unkept,
    ) -> None:
        """Takes the stored records, and a function that stores a record without waiting."""
        self._keep = keep
        self.cleared = 0
        """Number of records that the owner cleared."""
        self._by_path: dict[str, FileRecord] = {}
        self._tainted: dict[bytes, FileRecord] = {}
        self._sizes: set[int] = set()
        """Sizes of tainted contents: a file of another size need not be hashed."""
        self._folders: set[str] = set()
        """Paths of tainted directories, each with a trailing `/`."""
        for record in records:
            self._add(record)

    @property
    def has_tainted(self) -> bool:
        """Returns whether any file has a record of foreign text."""
        return bool(self._tainted or self._folders)

    def of(self, path: str) -> FileRecord | None:
        """Returns the record of a file, or None."""
        return self._by_path.get(path)

    def taint_of(self, path: str) -> frozenset[Origin]:
        """Returns the taint in the record of a file; empty without a record."""
        record = self.of(path)
        return record.taint if record else frozenset()

    def copied(self, digest: bytes) -> frozenset[Origin]:
        """Returns the taint of content that a tainted run wrote to any file; else empty."""
        record = self._tainted.get(digest)
        return record.taint if record else frozenset()

    def of_file(self, path: str, size: int, digest: Callable[[], bytes]) -> frozenset[Origin]:
        """Returns the present taint of a file: of its path, its folders, or its content.

        A path that a tainted run wrote is tainted until the owner clears it, or until an untainted
        run replaces the file.

        Args:
            path: Canonical absolute path.
            size: Bytes of the file.
            digest: Computes the SHA-256 of the content; called only if it is needed.

        """
        record = self._by_path.get(path)
        if record is not None and record.taint:
            return record.taint
        for folder in self._folders:
            if path.startswith(folder):
                return self._by_path[folder].taint
        return self.copied(digest()) if size in self._sizes else frozenset()

    def present_origins(self, root: str) -> frozenset[Origin]:
        """Returns the union of the taints of all existing files below a directory."""
        below = root.rstrip("/") + "/"
        taints = [
            record.taint
            for record in tuple(self._by_path.values())
            if record.taint
            and (record.path.startswith(below) or below.startswith(record.path))
            and os.path.lexists(record.path)
        ]
        return frozenset[Origin]().union(*taints)

    def matching(self, path: str, digest: bytes) -> FileRecord | None:
        """Returns the record of exactly this content, of the file or of the file it copies."""
        record = self._by_path.get(path)
        if record is not None and record.digest == digest and record.writer != HAND:
            return record
        of_copy = self._tainted.get(digest)
        return of_copy or (record if record is not None and record.digest == digest else None)

    def loaded(self, path: str, digest: bytes, size: int) -> FileRecord:
        """Returns the record of a file that is run or followed by its content, such as a hook.

        Its taint is that of the file it copies; a file with new content has no taint.
        """
        record = self.matching(path, digest)
        if record is None or record.path != path:
            writer = record.writer if record else HAND
            record = FileRecord(path, digest, size, writer, record.taint if record else frozenset())
            self.note(record)
        return record

    def trust(self, path: str, digest: bytes, size: int) -> None:
        """Records that the owner has read and confirmed exactly this content of a file."""
        self.cleared += 1
        self._tainted.pop(digest, None)
        self.note(FileRecord(path, digest, size, OWNER, frozenset()))

    def tainted(self) -> list[FileRecord]:
        """Returns the records of tainted files, ordered by path."""
        records = [record for record in self._by_path.values() if record.taint]
        return sorted(records, key=lambda record: record.path)

    def note(self, record: FileRecord) -> None:
        """Records the new content of a file."""
        if self._by_path.get(record.path) != record:
            self._add(record)
            self._keep(record)

    def judged(self, path: str, digest: bytes, size: int) -> frozenset[Origin]:
        """Returns the taint of an instruction file that is read now, and records its content.

        A tainted record is valid until the owner clears it, also after changes by hand. A change by
        hand of any other file counts as the owner's, unless the content is recorded as tainted.
        """
        record = self.of(path)
        if record is not None and (record.taint or record.digest == digest):
            return record.taint
        taint = self.copied(digest)
        self.note(FileRecord(path, digest, size, HAND, taint))
        return taint

    def _add(self, record: FileRecord) -> None:
        self._by_path[record.path] = record
        if record.path.endswith("/"):
            self._folders.discard(record.path)
            if record.taint:
                self._folders.add(record.path)
            return
        if record.taint:
            self._sizes.add(record.size)
            before = self._tainted.get(record.digest)
            # The writer of a file is more informative than a person who copied it.
            if before is None or record.writer != HAND:
                self._tainted[record.digest] = record
