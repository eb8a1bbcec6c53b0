"""An agent's index: the tables and what is made of them, kept equal to the files. All blocking."""

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.infra.clock import Clock
from skerry.memory.database import DamagedError, Database, nothing
from skerry.memory.filling import Filling, Report, Settings, StoppedError, Write
from skerry.memory.tables import Change, Tables
from skerry.model.memory import MemoryProgress, MemorySource, SyncReport

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.collection import Collection

logger = logging.getLogger(__name__)

YIELD_SECONDS: Final = 0.001
"""For the threads that wait, after each batch: the event loop's among them."""
MADE_WITH: Final = "made with"
INDEXED_AT: Final = "indexed at"
GENERATION: Final = "generation"
"""Names the folder of what is made of the tables; an index that is made anew has another."""


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
        self.database = Database(path, reach)
        self.notes: list[str] = []
        """What went wrong and was mended, for people."""
        self._clock = clock
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

    def close(self) -> None:
        """Let go of the files; a job that runs ends at its next batch."""
        self._stop.set()
        with self._job, self._state:
            self.database.close()
            self._collection = None
            self._opened = False

    def sync(self, *, force: bool = False, report: Report = no_report) -> SyncReport:
        """Bring it up to what the files say; `force` makes it anew, and swaps it in.

        Raises:
            MemoryBackendError: it cannot be written.
            StoppedError: it was closed meanwhile.
        """
        with self._job:
            self._open()
            try:
                return self._sync(force=force, report=report)
            except DamagedError as error:
                self._discard(str(error))
                return self._sync(force=False, report=report)

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
            self._note_damage(damage)

    def _note_damage(self, damage: str) -> None:
        self.notes = [f"The index was damaged ({damage}); it was made anew from the files."]
        logger.warning("the index %s was damaged: %s", self.database.path, damage)

    def _sync(self, *, force: bool, report: Report) -> SyncReport:
        with self.database.reading() as tables:
            made_with = tables.meta(MADE_WITH)
            known = tables.known(MemorySource.MEMORY)
        if force or made_with not in {None, self.settings.made_with}:
            return self._rebuild(report)
        filling = self._filling(self._write)
        filling.files(known, report)
        self._write(self._done)
        return filling.tally.report()

    def _rebuild(self, report: Report) -> SyncReport:
        reports: list[SyncReport] = []
        made: list[Collection] = []

        def build(tables: Tables) -> None:
            filling = self._filling(lambda write: write(tables))
            filling.files({}, report)
            self._done(tables)
            reports.append(filling.tally.report())
            made.append(self._collect(tables))

        def swapped() -> None:
            self._collection, self._stale = made[0], False

        self.database.replace(build, swapped)
        self._drop_old()
        return reports[0]

    def _filling(self, write: Write) -> Filling:
        return Filling(self.settings, write, lambda: self._clock.now_ms() * 1_000_000, self._pace)

    def _done(self, tables: Tables) -> Change:
        tables.note(MADE_WITH, self.settings.made_with)
        tables.note(INDEXED_AT, str(self._clock.now_ms()))
        if tables.meta(GENERATION) is None:
            tables.note(GENERATION, secrets.token_hex(8))
        return Change()

    def _write(self, write: Callable[[Tables], Change]) -> None:
        with self.database.writing() as tables:
            change = write(tables)
        with self._state:
            if change and self._collection is not None:
                stale, self._stale = self._stale, True  # it stays so where this fails
                self._collection.refresh(added=change.added, removed=change.removed)
                self._stale = stale

    def _current(self, tables: Tables) -> "Collection":
        """Return the collection, after taking in what it lacks of the tables."""
        with self._state:
            if self._collection is None:
                self._collection = self._collect(tables)
            elif self._stale:
                _equal(self._collection, tables)
            self._stale = False
            return self._collection

    def _collect(self, tables: Tables) -> "Collection":
        """Return the collection of these tables, made where what is kept of it is not usable."""
        from skerry_recall.collection import Collection  # noqa: PLC0415 - as said above

        folder = self._derived / (tables.meta(GENERATION) or "new")
        try:
            found = Collection(folder)
            _equal(found, tables)
        except (OSError, ValueError):
            logger.warning("%s cannot be used and is made anew", folder, exc_info=True)
            shutil.rmtree(folder, ignore_errors=True)
            found = Collection(folder)
            _equal(found, tables)
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


def _equal(collection: "Collection", tables: Tables) -> None:
    """Make the collection hold the passages of the tables."""
    ids, held = tables.ids(), collection.ids()
    lacking = ids - held
    if lacking or held - ids:
        added = tables.passages(None if lacking == ids else sorted(lacking))
        collection.refresh(added=added, removed=held - ids)
