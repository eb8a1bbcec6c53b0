"""An agent's index: the tables and what is made of them, kept equal to the files. All blocking."""

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
from skerry.features.memory.file_changes import Lookout
from skerry.features.memory.index_tables import SCANNED, IndexChange, IndexedDocument, Tables
from skerry.features.memory.indexer import Filling, IndexSettings, Report, Write
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

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.collection import Collection

logger = logging.getLogger(__name__)

MADE_WITH: Final = "made with"
INDEXED_AT: Final = "indexed at"
PURGING: Final = "purging"
"""The note that something was taken out whose rest may still be in the files."""
LONG: Final = 2000
"""Files or conversations that are still to be brought in, from which on searches wait little."""
BUSY_SECONDS: Final = 0.05


class Conversations(Protocol):
    """The conversations of one agent, for the thread that indexes them."""

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns those in which something was said since then, in ms since 1970."""
        ...

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        """Returns the transcript of a conversation behind entry `after` as a document."""
        ...


def no_report(_: MemoryProgress) -> None:
    """Tells nobody how far it is."""


class Index(OpenIndex):
    """The index at `path`; what is derived of it is in the folder beside it.

    Usable from all threads; one brings it up to date at a time, searches go on meanwhile.
    """

    def __init__(
        self,
        path: Path,
        settings: IndexSettings,
        clock: Clock,
        reach: Callable[[str], None] = no_fault,
    ) -> None:
        self.settings = settings
        """Settings; they may be replaced at any time; `sync` rebuilds parts that cannot change by
        themselves."""
        super().__init__(path, reach)
        self.notes: list[str] = []
        """Problems that were repaired, for people."""
        self.era = 0
        """Number of erasures; rows that were read in an earlier era may be gone."""
        self.clock = clock
        self._reach = reach
        self._job = threading.Lock()
        """Whoever brings the index up to date."""
        self._opened = False
        self._busy = False
        """True while a job indexes many documents."""
        self._looking = Lookout()
        self._cut = Cutter()

    def close(self) -> None:
        """Lets go of the files; a job that runs ends at its next batch."""
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
        talks: "Conversations | None" = None,
        report: Report = no_report,
    ) -> SyncReport:
        """Brings it up to what the files and conversations say; `force` makes it anew, and swaps.

        Raises:
            MemoryBackendError: it cannot be written.
            StoppedError: it was closed meanwhile.
        """
        with self._job:
            self._open()
            work = partial(self._sync, force=force, talks=talks, report=self._noting_length(report))
            try:
                done = self._mended(work)
            finally:
                self._busy = False
        self._derive_quietly()
        return done

    def forget(self, redaction: Redaction, talks: "Conversations | None" = None) -> SyncReport:
        """Removes what holds the phrases, then adds what the files and conversations say now.

        They are not to hold them any more. A job that runs ends before, so that nothing of what it
        has read is written afterwards. Nothing of it stays in the files of the index. Searches go
        on meanwhile.

        Raises:
            MemoryBackendError, StoppedError: as `sync`.
        """
        with self._job:
            if not self.database.path.exists():
                return SyncReport()
            self._open()
            try:
                return self._mended(partial(self._forget, redaction, talks))
            finally:
                self._busy = False

    def freshen(self, seconds: float) -> bool:
        """Brings in what changed in the files since the last look; returns whether it was done.

        It is not where somebody else is at it for longer than so many seconds.

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
        """Brings in what changed; of a large tree only what a watch names is looked into."""
        glance = self._looking.look(self.settings.paths)
        if glance is None:
            return
        if glance.only is None:
            self._mended(partial(self._update, glance.scan, no_report))
        else:
            self._mended(partial(self._touch_up, glance.scan, glance.only))

    def _touch_up(self, present: FileScan, only: Sequence[str]) -> SyncReport:
        """Brings in the files of these paths, and no others."""
        with self.database.reading() as tables:
            documents, made_with = tables.known_at(only), tables.meta(MADE_WITH)
        filling = self._filling(self.write, made_with)
        if filling.files(documents, present, no_report):
            self.write(partial(self._done, made_with=filling.settings.made_with))
            with self.database.reading() as tables:
                documents = tables.known_at(only)
        self._looking.seen_some(
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
            self._namegeneration_of()
            self._opened = True

    def _discard(self, damage: str) -> None:
        """Throws the index away; the next pass makes it of the files."""
        with self._state:
            self.database.discard()
            self._deriving.drop()
            self._looking.forget()
            self._note_damage(damage)
            self._namegeneration_of()

    def _namegeneration_of(self) -> None:
        """Names the folder of what is derived before anything is, so that it is found again."""
        with self.database.reading() as tables:
            generation, state = tables.meta(GENERATION), tables.meta(STATE)
        if generation is None or state is None:
            generation = generation or secrets.token_hex(8)
            with self.database.writing() as tables:
                tables.note(GENERATION, generation)
                stamped(tables)
        self._deriving.keep_only(generation)

    def _noting_length(self, report: Report) -> Report:
        """Returns a report that also notes whether a job takes so long that nobody waits for it."""

        def noted(now: MemoryProgress) -> None:
            self._busy = now.total - now.done > LONG
            report(now)

        return noted

    def _note_damage(self, damage: str) -> None:
        self.notes = [f"The index was damaged ({damage}); it was made anew from the files."]
        logger.warning("the index %s was damaged: %s", self.database.path, damage)

    def _mended(self, work: Callable[[], SyncReport]) -> SyncReport:
        """Does the work; if the index proves damaged, deletes it and does the work again."""
        try:
            return work()
        except IndexDamagedError as error:
            self._discard(str(error))
            return work()

    def _sync(self, *, force: bool, talks: "Conversations | None", report: Report) -> SyncReport:
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
        present = scan(self.settings.paths)
        if force or made_with not in {None, self.settings.made_with}:
            return self._rebuild(present, talks, report)
        filled = self._update(present, report)
        if talks is None:
            return filled
        with self.database.reading() as tables:
            documents = tables.known(MemorySource.SESSIONS)
        filling = self._filling(self.write, made_with)
        self._converse(filling, documents, talks, report)
        return filled.joined(filling.tally.report())

    def _forget(self, redaction: Redaction, talks: "Conversations | None") -> SyncReport:
        with self.database.reading() as tables:
            matches = held_phrases(tables, redaction)
            removed = tables.known_as(matches.documents)
            pieces = None if tables.meta(PURGING) else matches.pieces
        self.era += 1
        if removed:
            self.write(partial(_taken_out, removed=removed))
        self._reach("forget.unindexed")
        self._looking.forget()
        filled = self._update(scan(self.settings.paths), no_report)
        if talks is not None:
            with self.database.reading() as tables:
                sessions = tables.known(MemorySource.SESSIONS)
            self._converse(self._filling(self.write), sessions, talks, no_report, every=True)
        self._busy = True  # the files are brought in: nobody has to wait for the rest
        retake(self)
        self.write(_swept)
        if self._deriving.is_there:
            with self._deriving.halted(), self.database.reading() as tables:
                self._deriving.purge(tables, generation_of(tables))
        self._drop_old()
        self.database.purge(pieces)
        self.write(_purged)
        return replace(filled, removed=len(removed))

    def _update(self, present: FileScan, report: Report) -> SyncReport:
        """Brings the files in, as the others were: other settings wait for the index made anew."""
        digest = present.digest()
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
            same = tables.meta(SCANNED) == digest
            documents = {} if same else tables.known(MemorySource.MEMORY)
            failed = tables.failed_files() if same else []
        filling = self._filling(self.write, made_with)
        wrote = False
        if same:
            filling.nothing(present, failed)
        else:
            wrote = filling.files(documents, present, report)
        done = partial(self._done, made_with=filling.settings.made_with, linked=present.linked)
        # What was written just now may be written again within the grain of the clock: the next
        # round compares each file once more.
        self.write(partial(done, scanned=None if wrote else digest))
        if wrote:
            with self.database.reading() as tables:
                documents = tables.known(MemorySource.MEMORY)
        stamps = (
            present.stamps
            if same
            else {path: document.stamp for path, document in documents.items()}
        )
        self._looking.seen_all(stamps, present.failed)
        return filling.tally.report()

    def _converse(
        self,
        filling: Filling,
        documents: Mapping[str, IndexedDocument],
        talks: "Conversations",
        report: Report,
        *,
        every: bool = False,
    ) -> None:
        """Brings the conversations in, those that are kept."""
        now = self.clock.now_ms()
        talks_since = talks.conversations(now - self.settings.retention_days * DAY_MS)
        filling.sessions(documents, talks_since, talks.document, report, None if every else now)

    def _rebuild(
        self, present: FileScan, talks: "Conversations | None", report: Report
    ) -> SyncReport:
        reports: list[SyncReport] = []
        made: list[Collection] = []
        generation: list[str] = []

        def build(tables: Tables) -> None:
            filling = self._filling(lambda write: write(tables))
            filling.files({}, present, report)
            if talks is not None:
                self._converse(filling, {}, talks, report, every=True)
            self._done(tables, filling.settings.made_with, present.linked)
            stamped(tables)
            reports.append(filling.tally.report())
            generation.append(generation_of(tables))
            made.append(self._deriving.made(tables, generation[0]))

        def swapped() -> None:
            self._writes += 1
            self._deriving.take(made[0], generation[0])
            self._looking.forget()

        self.database.replace(build, swapped)
        self._drop_old()
        return reports[0]

    def _filling(self, write: Write, made_with: str | None = None) -> Filling:
        settings = self.settings.as_made(made_with)
        return Filling(
            settings, write, lambda: self.clock.now_ms() * 1_000_000, self._pace, self._cut
        )

    def _done(
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


def _taken_out(tables: Tables, removed: Sequence[IndexedDocument]) -> IndexChange:
    tables.note(PURGING, "1")
    return tables.remove(removed)


def _purged(tables: Tables) -> IndexChange:
    tables.drop_note(PURGING)
    return IndexChange()


def _swept(tables: Tables) -> IndexChange:
    """Leaves neither a vector nor a word of what is not there."""
    tables.prune_cache(0)
    tables.merge_text()
    return IndexChange()
