"""An index that is open: its tables, and what is searched, kept equal to them. All blocking."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from skerry.features.memory.collection_sync import STATE, vectors
from skerry.features.memory.database import IndexDamagedError, IndexDatabase
from skerry.features.memory.derived_collection import Deriving
from skerry.features.memory.index_tables import IndexChange, Tables
from skerry.features.memory.indexer import StoppedError
from skerry.model.memory import MemoryBackendError

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.collection import Collection

T = TypeVar("T")
logger = logging.getLogger(__name__)

YIELD_SECONDS: Final = 0.001
"""Seconds for the waiting threads after each batch: the event loop's among them."""
GENERATION: Final = "generation"
"""Names the folder of what is made of the tables; an index that is made anew has another."""
RECALLED: Final = 32
"""Filters of questions whose documents are kept."""
BEHIND: Final = "what is searched is being updated from the index; ask again in a moment"


class OpenIndex:
    """The part of `index.Index` that reads and writes. Usable from all threads."""

    def __init__(self, path: Path, reach: Callable[[str], None]) -> None:
        self.database = IndexDatabase(path, reach)
        self._deriving = Deriving(path.with_suffix(".derived"), self._pace)
        self._state = threading.RLock()
        """Whoever opens it; held for moments."""
        self._stop = threading.Event()
        self._writes = 0
        """Number of writes to the tables."""
        self._recalled: tuple[int, dict[object, object]] = (0, {})
        """Values derived from the tables for queries, with the number of writes at that time."""
        self._thread: threading.Thread | None = None
        """Brings much into what is searched, beside searches."""

    def _open(self) -> None:
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Generator[tuple[Tables, "Collection | None", str]]:
        """Gives one state of the tables, and the collection that is searched.

        It is equal to them, but for what is told beside it: much that is brought in beside the
        search. None where it has too little of them.

        Raises:
            IndexDamagedError: the file is damaged; `sync` makes it anew.
            MemoryBackendError: it cannot be read.
        """
        changes = self._deriving.changes
        with self.tables() as tables:
            collection, behind = self._deriving.usable(tables, generation_of(tables), changes)
            if behind:
                self.derive_beside()
            yield tables, collection, (self._deriving.lost or BEHIND) if behind else ""

    @contextmanager
    def tables(self) -> Generator[Tables]:
        """Gives one state of the tables, without what is searched.

        Raises:
            IndexDamagedError, MemoryBackendError: as `reading`.
        """
        self._open()
        with self.database.reading() as tables:
            yield tables

    def recalling(self) -> "Callable[[object, Callable[[], T]], T]":
        """Returns a cache of values derived from the tables, valid until these are written.

        It is to be asked for before a state of the tables is read.
        """
        writes = self._writes
        if self._recalled[0] != writes:
            self._recalled = writes, {}
        embedder_and_vector = self._recalled[1]

        def recall(key: object, make: Callable[[], T]) -> T:
            if key not in embedder_and_vector:
                made = make()
                if len(embedder_and_vector) >= RECALLED or self._writes != writes:
                    return made
                embedder_and_vector[key] = made
            return cast("T", embedder_and_vector[key])

        return recall

    def write(self, write: Callable[[Tables], IndexChange]) -> None:
        """Writes in one transaction, and takes what changed into what is searched.

        Raises:
            IndexDamagedError, MemoryBackendError: it cannot be written. Nothing is changed.
        """
        with self.database.writing() as tables:
            change = write(tables)
            states = stamped(tables) if change else ("", "")
        self._writes += 1
        if change:
            self._deriving.apply(
                lambda collection, stamp: collection.refresh(
                    added=change.added, removed=change.removed, stamp=stamp
                ),
                len(change.added) + len(change.removed),
                states,
            )

    def embed(self, label: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Gives passages their vectors, float32; `label` names the model.

        Raises:
            IndexDamagedError, MemoryBackendError: as `write`.
        """
        with self.database.writing() as tables:
            tables.embed(label, rows)
            states = stamped(tables)
        self._writes += 1
        self._deriving.apply(
            lambda collection, stamp: collection.refresh(
                vectors=vectors(rows), model=label, stamp=stamp
            ),
            len(rows),
            states,
        )

    def renew(self, label: str, write: Callable[[Tables], IndexChange]) -> None:
        """Writes what takes all vectors out, since another model is used: `label` from now on."""
        with self.database.writing() as tables:
            write(tables)
            states = stamped(tables)
        self._writes += 1
        self._deriving.apply(
            lambda collection, stamp: collection.refresh(model=label, stamp=stamp), 0, states
        )

    def derive(self) -> None:
        """Brings all that the tables have into what is searched; searches go on meanwhile.

        Raises:
            StoppedError: it was closed meanwhile, or something is forgotten; the rest is for later.
            IndexDamagedError, MemoryBackendError: the tables cannot be read.
        """
        self._open()

        def reading(work: Callable[[Tables], None]) -> None:
            with self.database.reading() as tables:
                work(tables)

        with self.database.reading() as tables:
            generation, (_, passages) = generation_of(tables), tables.vector_counts()
        if not (passages or self._deriving.is_there):
            return  # nothing is loaded for an empty memory
        self._deriving.make(generation, reading)

    def lost(self, why: str) -> None:
        """Notes that what is searched turned out to be unusable: it is made anew."""
        self._deriving.drop(why)

    def derive_beside(self) -> None:
        """Begins `derive` in a thread of ours, unless one is at it; `close` ends it."""
        with self._state:
            if self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(
                target=self._derive_quietly, name="memory-derive", daemon=True
            )
            self._thread.start()

    def _derive_quietly(self) -> None:
        try:
            self.derive()
        except StoppedError:
            logger.debug("the search collection is updated later")
        except (IndexDamagedError, MemoryBackendError, OSError, ValueError) as error:
            logger.warning("the search collection cannot be built from the index: %s", error)

    def _drop_old(self) -> None:
        """Removes what was derived of indexes that are gone."""
        with self.database.reading() as tables:
            self._deriving.keep_only(tables.meta(GENERATION))

    def _pace(self) -> None:
        if self._stop.is_set():
            raise StoppedError
        time.sleep(YIELD_SECONDS)


def stamped(tables: Tables) -> tuple[str, str]:
    """Gives the state of the tables another name; returns the old one and the new."""
    before, after = tables.meta(STATE) or "", secrets.token_hex(8)
    tables.note(STATE, after)
    return before, after


def generation_of(tables: Tables) -> str:
    """Returns the name of the folder of what is made of these tables."""
    return tables.meta(GENERATION) or "new"
