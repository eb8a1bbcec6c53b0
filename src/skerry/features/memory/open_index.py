"""An open index: its tables, and the search collection, which is kept equal to them. Blocking."""

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
from skerry.features.memory.derived_collection import DerivedCollection
from skerry.features.memory.index_tables import IndexChange, Tables
from skerry.features.memory.indexer import StoppedError
from skerry.model.memory import MemoryBackendError

if TYPE_CHECKING:  # numpy is loaded at the first search or indexing, not at the start
    from skerry_recall.collection import Collection

T = TypeVar("T")
logger = logging.getLogger(__name__)

YIELD_SECONDS: Final = 0.001
"""Pause after each batch, in seconds, for other threads such as the event loop."""
GENERATION: Final = "generation"
"""Key in `meta` of the name of the collection's folder; a rebuilt index has a new one."""
RECALLED: Final = 32
"""Limit on the cached filters of questions."""
BEHIND: Final = "the search collection is being updated from the index; ask again in a moment"


class OpenIndex:
    """The part of `index.Index` that reads and writes. Thread-safe."""

    def __init__(self, path: Path, reach: Callable[[str], None]) -> None:
        self.database = IndexDatabase(path, reach)
        self._deriving = DerivedCollection(path.with_suffix(".derived"), self._pace)
        self._state = threading.RLock()
        """Held briefly while the index is opened."""
        self._stop = threading.Event()
        self._writes = 0
        """Number of writes to the tables."""
        self._recalled: tuple[int, dict[object, object]] = (0, {})
        """Values derived from the tables for queries, with the number of writes at that time."""
        self._thread: threading.Thread | None = None
        """Updates the search collection in the background."""

    def _open(self) -> None:
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Generator[tuple[Tables, "Collection | None", str]]:
        """Gives a snapshot of the tables, the search collection, and a note.

        The collection is equal to the tables if the note is empty; otherwise a background update
        runs, and the collection is None if it lacks most rows.

        Raises:
            IndexDamagedError: the file is damaged; `sync` rebuilds it.
            MemoryBackendError: it cannot be read.
        """
        changes = self._deriving.changes
        with self.tables() as tables:
            collection, behind = self._deriving.usable(tables, generation_of(tables), changes)
            if behind:
                self.derive_beside()
            yield tables, collection, (self._deriving.loss or BEHIND) if behind else ""

    @contextmanager
    def tables(self) -> Generator[Tables]:
        """Gives a snapshot of the tables, without the search collection.

        Raises:
            IndexDamagedError, MemoryBackendError: as `reading`.
        """
        self._open()
        with self.database.reading() as tables:
            yield tables

    def recalling(self) -> "Callable[[object, Callable[[], T]], T]":
        """Returns a cache of values derived from the tables, valid until the next write.

        Call it before taking a snapshot of the tables.
        """
        writes = self._writes
        if self._recalled[0] != writes:
            self._recalled = writes, {}
        values = self._recalled[1]

        def recall(key: object, make: Callable[[], T]) -> T:
            if key not in values:
                value = make()
                if len(values) >= RECALLED or self._writes != writes:
                    return value
                values[key] = value
            return cast("T", values[key])

        return recall

    def write(self, write: Callable[[Tables], IndexChange]) -> None:
        """Writes in one transaction, and applies the change to the search collection.

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
        """Stores the vectors of passages, float32; `label` is the model.

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
        """Runs a write that removes all vectors, and sets the new model `label`."""
        with self.database.writing() as tables:
            write(tables)
            states = stamped(tables)
        self._writes += 1
        self._deriving.apply(
            lambda collection, stamp: collection.refresh(model=label, stamp=stamp), 0, states
        )

    def derive(self) -> None:
        """Makes the search collection equal to the tables; searches continue meanwhile.

        Raises:
            StoppedError: it was closed, or an erasure runs; the next search continues.
            IndexDamagedError, MemoryBackendError: the tables cannot be read.
        """
        self._open()

        def reading(work: Callable[[Tables], None]) -> None:
            with self.database.reading() as tables:
                work(tables)

        with self.database.reading() as tables:
            generation, (_, passages) = generation_of(tables), tables.vector_counts()
        if not (passages or self._deriving.exists):
            return  # nothing is loaded for an empty memory
        self._deriving.make(generation, reading)

    def mark_lost(self, reason: str) -> None:
        """Discards an unusable search collection, which is then rebuilt."""
        self._deriving.drop(reason)

    def derive_beside(self) -> None:
        """Starts `derive` in a background thread, unless it runs already; `close` ends it."""
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
        """Deletes the collections of replaced indexes."""
        with self.database.reading() as tables:
            self._deriving.keep_only(tables.meta(GENERATION))

    def _pace(self) -> None:
        if self._stop.is_set():
            raise StoppedError
        time.sleep(YIELD_SECONDS)


def stamped(tables: Tables) -> tuple[str, str]:
    """Sets a new stamp for the state of the tables; returns the old and the new stamp."""
    before, after = tables.meta(STATE) or "", secrets.token_hex(8)
    tables.note(STATE, after)
    return before, after


def generation_of(tables: Tables) -> str:
    """Returns the name of the collection's folder for these tables."""
    return tables.meta(GENERATION) or "new"
