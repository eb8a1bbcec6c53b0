"""Records of who wrote the files of workspaces, and whose words the writer had read.

The state database keeps them (`store.files`); here they are looked up. A path has one record. A
copy of a file that has a tainted record is told by its content.
"""

import os
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from skerry.model.origin import Origin

HAND: Final = "hand"
"""Whoever changed a file outside the gateway: an editor of the person who owns the workspace."""


OWNER: Final = "owner"
"""The owner, who saved or confirmed what the file holds."""


class FileRecord(Struct, frozen=True):
    """The last content of a file that the gateway wrote, or saw in a prompt."""

    path: str
    """Canonical and absolute; with a `/` at its end the record is of all files below."""
    digest: bytes
    """SHA-256 of the content."""
    size: int
    writer: str
    """The conversation whose run wrote it; `gateway` for a person there, `owner` where the
    owner confirmed it, `hand` for an editor."""
    taint: frozenset[Origin]
    """Origins, other than the owner, of the text that the writer had read."""


def _unkept(_: FileRecord) -> None:
    """Keeps a record in memory alone."""


class FileRecords:
    """All records. Safe to be used from several threads: each step is one look into a mapping."""

    def __init__(
        self,
        records: Iterable[FileRecord] = (),
        keep: Callable[[FileRecord], object] = _unkept,
    ) -> None:
        """Takes what was stored, and a function that stores a record without waiting."""
        self._keep = keep
        self.cleared = 0
        """Number of records that the owner cleared."""
        self._by_path: dict[str, FileRecord] = {}
        self._tainted: dict[bytes, FileRecord] = {}
        self._sizes: set[int] = set()
        """Sizes of tainted contents: another size needs no hash to be told apart."""
        self._folders: set[str] = set()
        """Paths of tainted directories, each with a `/` at its end."""
        for record in records:
            self._add(record)

    @property
    def has_tainted(self) -> bool:
        """Returns whether any file has a record of foreign words."""
        return bool(self._tainted or self._folders)

    def of(self, path: str) -> FileRecord | None:
        """Returns the record of a file."""
        return self._by_path.get(path)

    def taint_of(self, path: str) -> frozenset[Origin]:
        """Returns the taint in the record of a file."""
        record = self.of(path)
        return record.taint if record else frozenset()

    def copied(self, digest: bytes) -> frozenset[Origin]:
        """Returns the taint of what a tainted run wrote, wherever it is now; empty for the rest."""
        record = self._tainted.get(digest)
        return record.taint if record else frozenset()

    def of_file(self, path: str, size: int, digest: Callable[[], bytes]) -> frozenset[Origin]:
        """Returns the taint of a file as it is now: of its path, its folders, or its content.

        A path that a tainted run wrote stays tainted until the owner clears it, or until an
        untainted run replaces the file.

        Args:
            path: Canonical and absolute.
            size: Bytes of the file.
            digest: Computes the SHA-256 of the content, where it is needed.

        """
        record = self._by_path.get(path)
        if record is not None and record.taint:
            return record.taint
        for folder in self._folders:
            if path.startswith(folder):
                return self._by_path[folder].taint
        return self.copied(digest()) if size in self._sizes else frozenset()

    def present_origins(self, root: str) -> frozenset[Origin]:
        """Returns the taint of those files below a directory together that still exist."""
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
        """Returns the record of exactly this content: the file's, or of what it is a copy of."""
        record = self._by_path.get(path)
        if record is not None and record.digest == digest and record.writer != HAND:
            return record
        of_copy = self._tainted.get(digest)
        return of_copy or (record if record is not None and record.digest == digest else None)

    def loaded(self, path: str, digest: bytes, size: int) -> FileRecord:
        """Returns the record of a file that is run or obeyed by its content alone, as a hook is.

        Its taint is that of what it is a copy of; who writes it anew is rid of it.
        """
        record = self.matching(path, digest)
        if record is None or record.path != path:
            writer = record.writer if record else HAND
            record = FileRecord(path, digest, size, writer, record.taint if record else frozenset())
            self.note(record)
        return record

    def trust(self, path: str, digest: bytes, size: int) -> None:
        """Takes exactly this content of a file as the owner's: they saw it and said so."""
        self.cleared += 1
        self._tainted.pop(digest, None)
        self.note(FileRecord(path, digest, size, OWNER, frozenset()))

    def tainted(self) -> list[FileRecord]:
        """Returns the files whose writer had read others' words, by path."""
        records = [record for record in self._by_path.values() if record.taint]
        return sorted(records, key=lambda record: record.path)

    def note(self, record: FileRecord) -> None:
        """Notes what a file holds from now on."""
        if self._by_path.get(record.path) != record:
            self._add(record)
            self._keep(record)

    def judged(self, path: str, digest: bytes, size: int) -> frozenset[Origin]:
        """Returns the taint of an instruction file as it is read now, and notes what was read.

        A tainted record holds until the owner clears it, whatever was changed by hand since. A
        change by hand of any other file is the owner's, unless the content is known to be tainted.
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
            if (
                before is None or record.writer != HAND
            ):  # who wrote it tells more than who copied it
                self._tainted[record.digest] = record
