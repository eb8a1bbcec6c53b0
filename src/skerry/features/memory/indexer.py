"""Updates the tables from the files: finds changed ones, reads them, writes them in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from skerry.features.memory.documents import (
    OVERLAP,
    SIZE,
    Document,
    DocumentPassage,
    Resume,
    Stamp,
    date_of,
    digest,
)
from skerry.features.memory.index_keeper import SHARE
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index_tables import IndexChange, IndexedDocument, Tables
from skerry.features.memory.markdown_files import FileScan, UnreadableError, read
from skerry.features.memory.transcript_markdown import (
    BLOCK,
    DELTA_BYTES,
    DELTA_ENTRIES,
    RETENTION_DAYS,
    in_blocks,
    is_due,
    path_of,
    resume_of,
    stamp_of,
)
from skerry.model.memory import MemoryProgress, MemorySource, SyncReport, TrackedConversation

BATCH_FILES: Final = 500
BATCH_CHARS: Final = 1 << 20
"""Characters per transaction: other writers get a turn after it, and a crash loses at most one."""

Write = Callable[[Callable[[Tables], IndexChange]], object]
"""Runs a write in a transaction, and applies its change to the search collection."""
Report = Callable[[MemoryProgress], None]
Cut = Callable[[Document, int, int], list[DocumentPassage]]
"""Cuts a document into passages of a size, with an overlap; raises `UnreadableError`."""


class StoppedError(Exception):
    """The job was cancelled; the changes so far are kept."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Content and form of the index."""

    paths: MemoryPaths
    size: int = SIZE
    overlap: int = OVERLAP
    """Tokens of a passage, and tokens that it shares with the next one."""
    zone: str | None = None
    """Time zone of the days of daily logs, an IANA name; None is the zone of this machine."""
    retention_days: int = RETENTION_DAYS
    """Days for which a conversation without new messages stays in the index."""
    delta_bytes: int = DELTA_BYTES
    delta_entries: int = DELTA_ENTRIES
    """New entries after which a conversation in use is indexed."""
    share: float = SHARE
    """Share of one core that the vectors of conversations may use."""
    cache: int | None = None
    """Number of vectors above which those of deleted texts are removed; None is the default."""

    @property
    def made_with(self) -> str:
        """Returns the settings whose change requires a rebuild."""
        return " ".join(filter(None, (f"{self.size}/{self.overlap}", self.zone)))

    def as_made(self, made_with: str | None) -> "IndexSettings":
        """Returns the settings with the values with which an existing index was built."""
        if made_with is None or made_with == self.made_with:
            return self
        sizes, _, zone = made_with.partition(" ")
        size, _, overlap = sizes.partition("/")
        return replace(self, size=int(size), overlap=int(overlap), zone=zone or None)


class Pace(Protocol):
    """Callback between two batches."""

    def __call__(self) -> None:
        """Yields the processor to other threads.

        Raises:
            StoppedError: the job was cancelled.
        """
        ...


@dataclass(slots=True)
class Tally:
    """Counts for the report."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    def report(self) -> SyncReport:
        """Returns the report."""
        return SyncReport(
            self.added,
            self.changed,
            self.removed,
            self.unchanged,
            self.chunks,
            self.embedded,
            tuple(sorted(set(self.failed))),
        )


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Changes to the files of the index."""

    look: Sequence[str]
    """Paths that are new or look changed, in order."""
    removed: Sequence[IndexedDocument]
    same: int


def plan(documents: Mapping[str, IndexedDocument], stamps: Mapping[str, Stamp]) -> IndexPlan:
    """Compares the indexed documents with the present files (pure)."""
    look = [path for path, stamp in stamps.items() if not _is_same(documents.get(path), stamp)]
    removed = [document for path, document in documents.items() if path not in stamps]
    return IndexPlan(sorted(look), removed, len(stamps) - len(look))


def _is_same(document: IndexedDocument | None, stamp: Stamp) -> bool:
    return document is not None and document.stamp == stamp


class IndexPass:
    """One pass over files and conversations. All methods block."""

    def __init__(
        self, settings: IndexSettings, write: Write, now_ns: Callable[[], int], pace: Pace, cut: Cut
    ) -> None:
        self.settings = settings
        self._write = write
        self._now_ns = now_ns
        self._pace = pace
        self._cut = cut
        self.tally = Tally()

    def files(
        self, documents: Mapping[str, IndexedDocument], present: FileScan, report: Report
    ) -> bool:
        """Indexes the files in `present`; returns whether a row was written.

        Raises:
            StoppedError: the job was cancelled.
        """
        todo = plan(documents, present.stamps)
        self.tally.failed += [*present.failed, *present.linked]
        self.tally.unchanged += todo.same
        self.tally.failed += [
            (path, document.error)
            for path, document in documents.items()
            if document.error is not None and path in present.stamps and path not in todo.look
        ]
        by_hash = {document.hash: document for document in todo.removed if document.error is None}
        moved: set[int] = set()
        completed = 0
        for batch in self._batches(todo.look, present.stamps):
            self._write(
                partial(self._put, batch=batch, indexed=documents, removed=by_hash, moved=moved)
            )
            completed += len(batch)
            report(MemoryProgress("files", completed, len(todo.look)))
            self._pace()
        removed = [document for document in todo.removed if document.id not in moved]
        if todo.removed:
            self._write(
                partial(
                    _take_out, files=removed, paths=[document.path for document in todo.removed]
                )
            )
            self.tally.removed += len(removed)
        return bool(todo.look or todo.removed)

    def count_unchanged(self, present: FileScan, failed: Sequence[tuple[str, str]]) -> None:
        """Counts the files when none has changed; `failed` are those that cannot be read."""
        self.tally.failed += [*present.failed, *present.linked, *failed]
        self.tally.unchanged += len(present.stamps)

    def sessions(
        self,
        indexed: Mapping[str, IndexedDocument],
        conversations: Sequence[TrackedConversation],
        read: Callable[[TrackedConversation, int], Document],
        report: Report,
        now: int | None,
    ) -> None:
        """Indexes conversations with enough new messages at `now` (ms); None: all changed ones.

        Raises:
            StoppedError: the job was cancelled.
        """
        due = [
            conversation
            for conversation in conversations
            if self._is_due(indexed.get(path_of(conversation)), conversation, now)
        ]
        for completed, conversation in enumerate(due, 1):
            old = indexed.get(path_of(conversation))
            resume = resume_of(old, conversation)
            document = read(conversation, resume.block * BLOCK if resume else 0)
            try:
                parts, next_resume = self._blocks(document, resume or Resume(0))
            except UnreadableError as error:
                self.tally.failed.append((document.path, str(error)))
            else:
                first = resume.position if resume else 0
                put = partial(self._put_session, document, parts, first=first, old=old)
                self._write(partial(put, resume=next_resume))
            report(MemoryProgress("sessions", completed, len(due)))
            self._pace()
        self.tally.unchanged += len(conversations) - len(due)
        paths = {path_of(conversation) for conversation in conversations}
        removed = [document for path, document in indexed.items() if path not in paths]
        if removed:
            self._write(lambda tables: tables.remove(removed))
            self.tally.removed += len(removed)

    def _is_due(
        self, indexed: IndexedDocument | None, conversation: TrackedConversation, now: int | None
    ) -> bool:
        if now is None:
            return indexed is None or indexed.stamp != stamp_of(conversation)
        return is_due(
            indexed, conversation, now, self.settings.delta_bytes, self.settings.delta_entries
        )

    def _blocks(self, document: Document, from_: Resume) -> tuple[list[DocumentPassage], Resume]:
        """Returns the passages of a conversation from a position, and that of its last block.

        Raises:
            UnreadableError: a block cannot be cut.
        """
        parts: list[DocumentPassage] = []
        last = from_
        for number, lines, block in in_blocks(document):
            last = Resume(number, from_.position + len(parts), from_.line + lines)
            parts += (
                replace(
                    passage,
                    position=last.position + passage.position,
                    start_line=last.line + passage.start_line,
                    end_line=last.line + passage.end_line,
                )
                for passage in self._passages(block)
            )
        return parts, last

    def _put_session(
        self,
        document: Document,
        parts: Sequence[DocumentPassage],
        tables: Tables,
        *,
        first: int,
        old: IndexedDocument | None,
        resume: Resume,
    ) -> IndexChange:
        if old is None:
            change = tables.add([(document, parts)])
            self.tally.added += 1
        else:
            change = tables.update(old, document, parts, first)
            self.tally.changed += 1
        tables.note_resume(document.path, resume)
        self.tally.chunks += len(change.added)
        return change

    def _batches(
        self, paths: Sequence[str], stamps: Mapping[str, Stamp]
    ) -> Iterator[list["_Read"]]:
        batch: list[_Read] = []
        chars = 0
        for path in paths:
            batch.append(self._read(path, stamps[path]))
            chars += len(batch[-1].text)
            if len(batch) >= BATCH_FILES or chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch

    def _read(self, path: str, stamp: Stamp) -> "_Read":
        try:
            text, stamp, encoding = read(self.settings.paths, path, self._now_ns())
        except UnreadableError as error:
            return _Read(path, "", stamp, str(error))
        return _Read(path, text, stamp, encoding=encoding)

    def _put(
        self,
        tables: Tables,
        batch: Sequence["_Read"],
        indexed: Mapping[str, IndexedDocument],
        removed: dict[str, IndexedDocument],
        moved: set[int],
    ) -> IndexChange:
        change = IndexChange()
        new: list[tuple[Document, Sequence[DocumentPassage]]] = []
        for file in batch:
            old = indexed.get(file.path)
            if file.error is not None:
                change.join(
                    tables.fail(file.path, MemorySource.MEMORY, file.stamp, file.error, old)
                )
                self.tally.failed.append((file.path, file.error))
                continue
            document = self._document(file)
            if old is not None and old.error is None and old.hash == file.hash:
                tables.touch(old, file.stamp)
                self.tally.unchanged += 1
            elif (was := self._moved(file, old, removed)) is not None and was.at == document.at:
                tables.move(was, file.path, file.stamp)
                moved.add(was.id)
                self.tally.changed += 1
            else:
                change.join(self._put_new(tables, document, old, new))
        tables.note_encodings({file.path: file.encoding for file in batch})
        change.join(tables.add(new))
        self.tally.chunks += len(change.added)
        return change

    @staticmethod
    def _moved(
        file: "_Read", old: IndexedDocument | None, removed: dict[str, IndexedDocument]
    ) -> IndexedDocument | None:
        return removed.pop(file.hash, None) if old is None else None

    def _put_new(
        self,
        tables: Tables,
        document: Document,
        old: IndexedDocument | None,
        new: list[tuple[Document, Sequence[DocumentPassage]]],
    ) -> IndexChange:
        """Updates an indexed document; appends a new one to `new`."""
        try:
            parts = self._passages(document)
        except UnreadableError as error:
            self.tally.failed.append((document.path, str(error)))
            return tables.fail(document.path, MemorySource.MEMORY, document.stamp, str(error), old)
        if old is None:
            new.append((document, parts))
            self.tally.added += 1
            return IndexChange()
        self.tally.changed += 1
        return tables.update(old, document, parts)

    def _document(self, file: "_Read") -> Document:
        at = date_of(file.path, self.settings.zone)
        return Document(file.path, MemorySource.MEMORY, file.text, file.stamp, at)

    def _passages(self, document: Document) -> list[DocumentPassage]:
        return self._cut(document, self.settings.size, self.settings.overlap)


def _take_out(
    tables: Tables, files: Sequence[IndexedDocument], paths: Sequence[str]
) -> IndexChange:
    """Removes files, and the stored encodings of deleted or moved ones."""
    tables.note_encodings(dict.fromkeys(paths, "UTF-8"))
    return tables.remove(files)


@dataclass(frozen=True, slots=True)
class _Read:
    """A file with its text, or the error of reading it."""

    path: str
    text: str
    stamp: Stamp
    error: str | None = None
    encoding: str = "UTF-8"

    @property
    def hash(self) -> str:
        return digest(self.text)
