"""An agent's index: the tables and what is made of them, kept equal to the files. All blocking."""

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from skerry.infra.clock import DAY_MS, Clock
from skerry.memory.database import DamagedError, Database, nothing
from skerry.memory.derived import equal, vectors
from skerry.memory.documents import Document, Stamp
from skerry.memory.files import Places, Scan, scan
from skerry.memory.filling import Filling, Report, Settings, StoppedError, Write, joined
from skerry.memory.tables import Change, Known, Tables
from skerry.memory.watch import Watch
from skerry.model.memory import Conversation, MemoryProgress, MemorySource, SyncReport
from skerry.model.redaction import Redaction

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.collection import Collection

logger = logging.getLogger(__name__)

YIELD_SECONDS: Final = 0.001
"""For the threads that wait, after each batch: the event loop's among them."""
MADE_WITH: Final = "made with"
INDEXED_AT: Final = "indexed at"
GENERATION: Final = "generation"
"""Names the folder of what is made of the tables; an index that is made anew has another."""
WATCHED: Final = 500
"""Files from which on a look takes so long that a watch is kept instead."""


class Talks(Protocol):
    """The conversations of one agent, for the thread that indexes them."""

    def conversations(self, since: int) -> Sequence[Conversation]:
        """Return those in which something was said since then, in ms since 1970."""
        ...

    def document(self, conversation: Conversation) -> Document:
        """Return what was said in one."""
        ...


def no_report(_: MemoryProgress) -> None:
    """Tell nobody how far it is."""


class Index:
    """The index at `path`; what is derived of it is in the folder beside it.

    Usable from all threads; one brings it up to date at a time, searches go on meanwhile.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings,
        clock: Clock,
        reach: Callable[[str], None] = nothing,
    ) -> None:
        self.settings = settings
        """May be replaced at any time; what cannot change by itself is made anew by `sync`."""
        self.database = Database(path, reach)
        self.notes: list[str] = []
        """What went wrong and was mended, for people."""
        self.era = 0
        """How often something was forgotten; what was read in an earlier one may be gone."""
        self.clock = clock
        self._reach = reach
        self._derived = path.with_suffix(".derived")
        self._job = threading.Lock()
        """Whoever brings the index up to date."""
        self._state = threading.RLock()
        """Whoever opens it or changes what is searched; held for moments."""
        self._opened = False
        self._collection: Collection | None = None
        self._stale = False
        """Whether the collection may lack what the tables have."""
        self._stop = threading.Event()
        self._seen: dict[str, Stamp] = {}
        """The files as they were when they were last brought in."""
        self._failed: list[tuple[str, str]] = []
        self._watch = Watch()
        self._watched: Places | None = None
        """Where all was brought in, but for what the watch tells."""

    def close(self) -> None:
        """Let go of the files; a job that runs ends at its next batch."""
        self._stop.set()
        with self._job, self._state:
            self.database.close()
            self._collection = None
            self._opened = False
            self._seen = {}
            self._watch.close()

    def sync(
        self, *, force: bool = False, talks: "Talks | None" = None, report: Report = no_report
    ) -> SyncReport:
        """Bring it up to what the files and conversations say; `force` makes it anew, and swaps.

        Raises:
            MemoryBackendError: it cannot be written.
            StoppedError: it was closed meanwhile.
        """
        with self._job:
            self._open()
            return self._mended(partial(self._sync, force=force, talks=talks, report=report))

    def forget(self, redaction: Redaction, talks: "Talks | None" = None) -> SyncReport:
        """Take out what holds the phrases, then bring in what the files and conversations say now.

        They are not to hold them any more. A job that runs ends before, so that nothing of what it
        has read is written afterwards. Nothing of it stays in the files of the index, which are
        written anew: about a second for 10,000 passages.

        Raises:
            MemoryBackendError, StoppedError: as `sync`.
        """
        with self._job:
            if not self.database.path.exists():
                return SyncReport()
            self._open()
            return self._mended(partial(self._forget, redaction, talks))

    def freshen(self, seconds: float) -> bool:
        """Bring in what changed in the files since the last look; return whether it was done.

        It is not where somebody else is at it for longer than so many seconds.

        Raises:
            MemoryBackendError, StoppedError: as `sync`.
        """
        if not self._job.acquire(timeout=seconds):
            return False
        try:
            self._open()
            self._look()
        finally:
            self._job.release()
        return True

    def _look(self) -> None:
        """Bring in what changed; a large tree that was left alone is not looked into."""
        places = self.settings.places
        if self._seen and places == self._watched and self._watch.is_quiet():
            return
        self._watched = None
        there = scan(places)
        if len(there.found) < WATCHED or there.failed:
            self._watch.close()
        elif self._watch.cover(there.folders):
            there = scan(places)  # what changed before it was watched
        if there.found != self._seen or there.failed != self._failed:
            self._mended(partial(self._update, there, no_report))
        self._watched = places

    @contextmanager
    def reading(self) -> Generator[tuple[Tables, "Collection"]]:
        """Give one state of the tables, and the collection that is searched, equal to them.

        Raises:
            DamagedError: the file is damaged; `sync` makes it anew.
            MemoryBackendError: it cannot be read.
        """
        with self.tables() as tables:
            yield tables, self._current(tables)

    @contextmanager
    def tables(self) -> Generator[Tables]:
        """Give one state of the tables, without what is searched.

        Raises:
            DamagedError, MemoryBackendError: as `reading`.
        """
        self._open()
        with self.database.reading() as tables:
            yield tables

    def _open(self) -> None:
        with self._state:
            if self._opened:
                return
            self._stop.clear()
            damage = self.database.open()
            if damage is not None:
                self._note_damage(damage)
            self._opened = True

    def _discard(self, damage: str) -> None:
        """Throw the index away; the next pass makes it of the files."""
        with self._state:
            self.database.discard()
            self._collection = None
            self._seen = {}
            self._note_damage(damage)

    def _note_damage(self, damage: str) -> None:
        self.notes = [f"The index was damaged ({damage}); it was made anew from the files."]
        logger.warning("the index %s was damaged: %s", self.database.path, damage)

    def _mended(self, work: Callable[[], SyncReport]) -> SyncReport:
        """Do the work; where the index turns out to be damaged, throw it away and do it again."""
        try:
            return work()
        except DamagedError as error:
            self._discard(str(error))
            return work()

    def _sync(self, *, force: bool, talks: "Talks | None", report: Report) -> SyncReport:
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
        there = scan(self.settings.places)
        if force or made_with not in {None, self.settings.made_with}:
            return self._rebuild(there, talks, report)
        filled = self._update(there, report)
        if talks is None:
            return filled
        with self.database.reading() as tables:
            known = tables.known(MemorySource.SESSIONS)
        filling = self._filling(self.write, made_with)
        self._converse(filling, known, talks, report)
        return joined(filled, filling.tally.report())

    def _forget(self, redaction: Redaction, talks: "Talks | None") -> SyncReport:
        with self.database.reading() as tables:
            holding = {one.document for one in tables.passages() if redaction.may_be_in(one.text)}
            known = [one for source in MemorySource for one in tables.known(source).values()]
        gone = [one for one in known if one.id in holding]
        self.era += 1
        if gone:
            self.write(lambda tables: tables.remove(gone))
        self._reach("forget.unindexed")
        self._seen = {}
        filled = self._update(scan(self.settings.places), no_report)
        if talks is not None:
            with self.database.reading() as tables:
                said = tables.known(MemorySource.SESSIONS)
            self._converse(self._filling(self.write), said, talks, no_report, every=True)
        self.write(_swept)
        if self._collection is not None or self._derived.is_dir():
            with self.reading() as (_, collection):
                collection.compact()
        self._drop_old()
        self.database.purge()
        return replace(filled, removed=len(gone))

    def _update(self, there: Scan, report: Report) -> SyncReport:
        """Bring the files in, as the others were: other settings wait for the index made anew."""
        with self.database.reading() as tables:
            known = tables.known(MemorySource.MEMORY)
            made_with = tables.meta(MADE_WITH)
        filling = self._filling(self.write, made_with)
        wrote = filling.files(known, there, report)
        self.write(partial(self._done, made_with=filling.settings.made_with))
        if wrote:
            with self.database.reading() as tables:
                known = tables.known(MemorySource.MEMORY)
        self._seen = {path: one.stamp for path, one in known.items()}
        self._failed = there.failed
        return filling.tally.report()

    def _converse(
        self,
        filling: Filling,
        known: Mapping[str, Known],
        talks: "Talks",
        report: Report,
        *,
        every: bool = False,
    ) -> None:
        """Bring the conversations in, those that are kept."""
        now = self.clock.now_ms()
        there = talks.conversations(now - self.settings.retention_days * DAY_MS)
        filling.sessions(known, there, talks.document, report, None if every else now)

    def _rebuild(self, there: Scan, talks: "Talks | None", report: Report) -> SyncReport:
        reports: list[SyncReport] = []
        made: list[Collection] = []

        def build(tables: Tables) -> None:
            filling = self._filling(lambda write: write(tables))
            filling.files({}, there, report)
            if talks is not None:
                self._converse(filling, {}, talks, report, every=True)
            self._done(tables, filling.settings.made_with)
            reports.append(filling.tally.report())
            made.append(self._collect(tables))

        def swapped() -> None:
            self._collection, self._stale, self._seen = made[0], False, {}

        self.database.replace(build, swapped)
        self._drop_old()
        return reports[0]

    def _filling(self, write: Write, made_with: str | None = None) -> Filling:
        settings = self.settings.as_made(made_with)
        return Filling(settings, write, lambda: self.clock.now_ms() * 1_000_000, self._pace)

    def _done(self, tables: Tables, made_with: str) -> Change:
        tables.note(MADE_WITH, made_with)
        tables.note(INDEXED_AT, str(self.clock.now_ms()))
        if tables.meta(GENERATION) is None:
            tables.note(GENERATION, secrets.token_hex(8))
        return Change()

    def write(self, write: Callable[[Tables], Change]) -> None:
        """Write in one transaction, and take what changed into what is searched.

        Raises:
            DamagedError, MemoryBackendError: it cannot be written. Nothing is changed.
        """
        with self.database.writing() as tables:
            change = write(tables)
        with self._state:
            if change and self._collection is not None:
                stale, self._stale = self._stale, True  # it stays so where this fails
                self._collection.refresh(added=change.added, removed=change.removed)
                self._stale = stale

    def embed(self, label: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Give passages their vectors, float32; `label` names the model.

        Raises:
            DamagedError, MemoryBackendError: as `write`.
        """
        with self.database.writing() as tables:
            tables.embed(label, rows)
        with self._state:
            if self._collection is not None:
                stale, self._stale = self._stale, True
                self._collection.refresh(vectors=vectors(rows), model=label)
                self._stale = stale

    def renew(self, label: str, write: Callable[[Tables], Change]) -> None:
        """Write what takes all vectors out, since another model is used: `label` from now on."""
        with self.database.writing() as tables:
            write(tables)
        with self._state:
            if self._collection is not None:
                stale, self._stale = self._stale, True
                self._collection.refresh(model=label)
                self._stale = stale

    def _current(self, tables: Tables) -> "Collection":
        """Return the collection, after taking in what it lacks of the tables."""
        with self._state:
            if self._collection is None:
                self._collection = self._collect(tables)
            elif self._stale:
                equal(self._collection, tables)
            self._stale = False
            return self._collection

    def _collect(self, tables: Tables) -> "Collection":
        """Return the collection of these tables, made where what is kept of it is not usable."""
        from skerry_recall.collection import Collection  # noqa: PLC0415 - as said above

        folder = self._derived / (tables.meta(GENERATION) or "new")
        try:
            found = Collection(folder)
            equal(found, tables)
        except (OSError, ValueError) as error:  # a torn file, or the form of another version
            logger.warning("%s is made anew: %s", folder, error)
            shutil.rmtree(folder, ignore_errors=True)
            found = Collection(folder)
            equal(found, tables)
        return found

    def _drop_old(self) -> None:
        """Remove what was derived of indexes that are gone."""
        with self.database.reading() as tables:
            keep = tables.meta(GENERATION)
        for folder in self._derived.iterdir() if self._derived.is_dir() else ():
            if folder.name != keep:
                shutil.rmtree(folder, ignore_errors=True)

    def _pace(self) -> None:
        if self._stop.is_set():
            raise StoppedError
        time.sleep(YIELD_SECONDS)


def _swept(tables: Tables) -> Change:
    """Leave neither a vector nor a word of what is not there."""
    tables.prune_cache(0)
    tables.merge_text()
    return Change()
