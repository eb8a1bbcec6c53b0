"""An agent's index: tables and search collection, kept equal to the files. Blocking."""

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from skerry.features.memory.cached_vectors import retake
from skerry.features.memory.collection_sync import STATE
from skerry.features.memory.database import IndexDamagedError, no_fault
from skerry.features.memory.document_chunking import Cutter
from skerry.features.memory.documents import Document
from skerry.features.memory.erasure_matches import erasure_matches as held_phrases
from skerry.features.memory.file_changes import FileChangeTracker
from skerry.features.memory.index_tables import SCANNED, IndexChange, IndexedDocument, Tables
from skerry.features.memory.indexer import IndexPass, IndexSettings, Report, Write
from skerry.features.memory.markdown_files import FileScan, scan
from skerry.features.memory.open_index import GENERATION, OpenIndex, generation_of, stamped
from skerry.infra.clock import DAY_MS, Clock
from skerry.model.memory import (
    MemoryProgress,
    MemorySource,
    SyncReport,
    TrackedConversation,
)
from skerry.model.redaction import Redaction

if TYPE_CHECKING:  # numpy is loaded at the first search or indexing, not at the start
    from skerry_recall.collection import Collection

logger = logging.getLogger(__name__)

MADE_WITH: Final = "made with"
INDEXED_AT: Final = "indexed at"
PURGING: Final = "purging"
"""Key in `meta` that is set while remains of deleted text may be in the files."""
LONG: Final = 2000
"""Number of files or conversations left to index above which a search waits `BUSY_SECONDS`."""
BUSY_SECONDS: Final = 0.05


class Conversations(Protocol):
    """Source of an agent's conversations, for the indexing thread."""

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns the conversations with a message at or after `since`, in ms since 1970."""
        ...

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        """Returns the transcript of a conversation after entry `after` as a document."""
        ...


def no_report(_: MemoryProgress) -> None:
    """Reports no progress."""


class Index(OpenIndex):
    """The index at `path`; the search collection is in the folder next to it.

    Thread-safe; one thread updates it at a time, while searches continue.
    """

    def __init__(
        self,
        path: Path,
        settings: IndexSettings,
        clock: Clock,
        reach: Callable[[str], None] = no_fault,
    ) -> None:
        self.settings = settings
        """Settings; may be replaced at any time: `sync` rebuilds the index if necessary."""
        super().__init__(path, reach)
        self.notes: list[str] = []
        """Problems that were repaired, for people."""
        self.era = 0
        """Number of erasures; rows read in an earlier era may have been erased."""
        self.clock = clock
        self._reach = reach
        self._job = threading.Lock()
        """Held by the thread that updates the index."""
        self._opened = False
        self._busy = False
        """True while a job indexes many documents."""
        self._looking = FileChangeTracker()
        self._cut = Cutter()

    def close(self) -> None:
        """Closes the files; a running job ends at its next batch."""
        self._stop.set()
        self._cut.close()
        if self._thread is not None:
            self._thread.join()
        with self._job, self._state, self._deriving.halted():
            self.database.close()
            self._deriving.drop()
            self._opened = False
            self._looking.close()

    def sync(
        self,
        *,
        force: bool = False,
        transcripts: Conversations | None = None,
        report: Report = no_report,
    ) -> SyncReport:
        """Updates the index from files and conversations; `force` rebuilds and replaces it.

        Raises:
            MemoryBackendError: it cannot be written.
            StoppedError: it was closed meanwhile.
        """
        with self._job:
            self._open()
            noted = self._with_busy_flag(report)
            work = partial(self._sync, force=force, transcripts=transcripts, report=noted)
            try:
                sync_report = self._mended(work)
            finally:
                self._busy = False
        self._derive_quietly()
        return sync_report

    def forget(self, redaction: Redaction, transcripts: Conversations | None = None) -> SyncReport:
        """Removes the documents with the phrases, then indexes their present text.

        Call it after the phrases were removed from files and conversations. A running job ends
        first, so that it writes no older text afterwards. No phrase remains in the files of the
        index. Searches continue meanwhile.

        Raises:
            MemoryBackendError, StoppedError: as `sync`.
        """
        with self._job:
            if not self.database.path.exists():
                return SyncReport()
            self._open()
            try:
                return self._mended(partial(self._forget, redaction, transcripts))
            finally:
                self._busy = False

    def freshen(self, seconds: float) -> bool:
        """Indexes the files that changed since the last check; returns whether it did.

        Returns False if another job does not finish within `seconds`.

        Raises:
            MemoryBackendError, StoppedError: as `sync`.
        """
        if not self._job.acquire(timeout=BUSY_SECONDS if self._busy else seconds):
            return False
        try:
            self._open()
            self._look()
        finally:
            self._job.release()
        return True

    def _look(self) -> None:
        """Indexes changed files; in a large tree, only files that the watch reports are checked."""
        glance = self._looking.look(self.settings.paths)
        if glance is None:
            return
        if glance.only is None:
            self._mended(partial(self._update, glance.scan, no_report))
        else:
            self._mended(partial(self._touch_up, glance.scan, glance.only))

    def _touch_up(self, present: FileScan, only: Sequence[str]) -> SyncReport:
        """Indexes the files at these paths only."""
        with self.database.reading() as tables:
            documents, made_with = tables.documents_at(only), tables.meta(MADE_WITH)
        filling = self._filling(self.write, made_with)
        if filling.files(documents, present, no_report):
            self.write(partial(self._record_pass, made_with=filling.settings.made_with))
            with self.database.reading() as tables:
                documents = tables.documents_at(only)
        self._looking.record_some(
            only, {path: document.stamp for path, document in documents.items()}
        )
        return filling.tally.report()

    def _open(self) -> None:
        with self._state:
            if self._opened:
                return
            self._stop.clear()
            damage = self.database.open()
            if damage is not None:
                self._note_damage(damage)
            self._name_generation()
            self._opened = True

    def _discard(self, damage: str) -> None:
        """Deletes the index; the next pass builds it from the files."""
        with self._state:
            self.database.discard()
            self._deriving.drop()
            self._looking.forget()
            self._note_damage(damage)
            self._name_generation()

    def _name_generation(self) -> None:
        """Stores the name of the collection's folder before it is built."""
        with self.database.reading() as tables:
            generation, state = tables.meta(GENERATION), tables.meta(STATE)
        if generation is None or state is None:
            generation = generation or secrets.token_hex(8)
            with self.database.writing() as tables:
                tables.note(GENERATION, generation)
                stamped(tables)
        self._deriving.keep_only(generation)

    def _with_busy_flag(self, report: Report) -> Report:
        """Returns a progress callback that also sets the flag for long jobs."""

        def noted(now: MemoryProgress) -> None:
            self._busy = now.total - now.done > LONG
            report(now)

        return noted

    def _note_damage(self, damage: str) -> None:
        self.notes = [f"The index was damaged ({damage}); it was rebuilt from the files."]
        logger.warning("the index %s was damaged: %s", self.database.path, damage)

    def _mended(self, work: Callable[[], SyncReport]) -> SyncReport:
        """Does the work; if the index is damaged, deletes it and does the work again."""
        try:
            return work()
        except IndexDamagedError as error:
            self._discard(str(error))
            return work()

    def _sync(
        self, *, force: bool, transcripts: Conversations | None, report: Report
    ) -> SyncReport:
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
        present = scan(self.settings.paths)
        if force or made_with not in {None, self.settings.made_with}:
            return self._rebuild(present, transcripts, report)
        filled = self._update(present, report)
        if transcripts is None:
            return filled
        with self.database.reading() as tables:
            documents = tables.documents_of(MemorySource.SESSIONS)
        filling = self._filling(self.write, made_with)
        self._index_conversations(filling, documents, transcripts, report)
        return filled.joined(filling.tally.report())

    def _forget(self, redaction: Redaction, transcripts: Conversations | None) -> SyncReport:
        with self.database.reading() as tables:
            matches = held_phrases(tables, redaction)
            removed = tables.documents_with(matches.documents)
            fragments = None if tables.meta(PURGING) else matches.fragments
        self.era += 1
        if removed:
            self.write(partial(_remove_for_purge, removed=removed))
        self._reach("forget.unindexed")
        self._looking.forget()
        filled = self._update(scan(self.settings.paths), no_report)
        if transcripts is not None:
            with self.database.reading() as tables:
                sessions = tables.documents_of(MemorySource.SESSIONS)
            self._index_conversations(
                self._filling(self.write), sessions, transcripts, no_report, every=True
            )
        self._busy = True  # the files are indexed: searches need not wait for the rest
        retake(self)
        self.write(_prune)
        if self._deriving.exists:
            with self._deriving.halted(), self.database.reading() as tables:
                self._deriving.purge(tables, generation_of(tables))
        self._drop_old()
        self.database.purge(fragments)
        self.write(_end_purge)
        return replace(filled, removed=len(removed))

    def _update(self, present: FileScan, report: Report) -> SyncReport:
        """Indexes the files with the settings of the index; new settings need a rebuild."""
        digest = present.digest()
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
            same = tables.meta(SCANNED) == digest
            documents = {} if same else tables.documents_of(MemorySource.MEMORY)
            failed = tables.failed_files() if same else []
        filling = self._filling(self.write, made_with)
        wrote = False
        if same:
            filling.count_unchanged(present, failed)
        else:
            wrote = filling.files(documents, present, report)
        finish = partial(
            self._record_pass, made_with=filling.settings.made_with, linked=present.linked
        )
        # A file may change again within the resolution of the clock: the next round compares each
        # file again.
        self.write(partial(finish, scanned=None if wrote else digest))
        if wrote:
            with self.database.reading() as tables:
                documents = tables.documents_of(MemorySource.MEMORY)
        stamps = (
            present.stamps
            if same
            else {path: document.stamp for path, document in documents.items()}
        )
        self._looking.record_all(stamps, present.failed)
        return filling.tally.report()

    def _index_conversations(
        self,
        filling: IndexPass,
        documents: Mapping[str, IndexedDocument],
        transcripts: Conversations,
        report: Report,
        *,
        every: bool = False,
    ) -> None:
        """Indexes the conversations within the retention time."""
        now = self.clock.now_ms()
        recent_conversations = transcripts.conversations(
            now - self.settings.retention_days * DAY_MS
        )
        filling.sessions(
            documents, recent_conversations, transcripts.document, report, None if every else now
        )

    def _rebuild(
        self, present: FileScan, transcripts: Conversations | None, report: Report
    ) -> SyncReport:
        reports: list[SyncReport] = []
        collections: list[Collection] = []
        generation: list[str] = []

        def build(tables: Tables) -> None:
            filling = self._filling(lambda write: write(tables))
            filling.files({}, present, report)
            if transcripts is not None:
                self._index_conversations(filling, {}, transcripts, report, every=True)
            self._record_pass(tables, filling.settings.made_with, present.linked)
            stamped(tables)
            reports.append(filling.tally.report())
            generation.append(generation_of(tables))
            collections.append(self._deriving.built(tables, generation[0]))

        def swapped() -> None:
            self._writes += 1
            self._deriving.take(collections[0], generation[0])
            self._looking.forget()

        self.database.replace(build, swapped)
        self._drop_old()
        return reports[0]

    def _filling(self, write: Write, made_with: str | None = None) -> IndexPass:
        settings = self.settings.as_made(made_with)
        return IndexPass(
            settings, write, lambda: self.clock.now_ms() * 1_000_000, self._pace, self._cut
        )

    def _record_pass(
        self,
        tables: Tables,
        made_with: str,
        linked: Sequence[tuple[str, str]] | None = None,
        scanned: str | None = None,
    ) -> IndexChange:
        if scanned is not None:
            tables.note(SCANNED, scanned)
        if linked is not None:
            tables.note_links(linked)
        tables.note(MADE_WITH, made_with)
        tables.note(INDEXED_AT, str(self.clock.now_ms()))
        if tables.meta(GENERATION) is None:
            tables.note(GENERATION, secrets.token_hex(8))
        return IndexChange()


def _remove_for_purge(tables: Tables, removed: Sequence[IndexedDocument]) -> IndexChange:
    tables.note(PURGING, "1")
    return tables.remove(removed)


def _end_purge(tables: Tables) -> IndexChange:
    tables.drop_note(PURGING)
    return IndexChange()


def _prune(tables: Tables) -> IndexChange:
    """Deletes vectors and full-text entries of deleted passages."""
    tables.prune_cache(0)
    tables.merge_text()
    return IndexChange()
