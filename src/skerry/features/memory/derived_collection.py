"""Search collection derived from the tables: opened, kept equal to them, rebuilt when lost.

`make` applies large differences; a search applies small ones only. Thread-safe.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.features.memory.collection_sync import Difference, difference, equal, is_of
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.indexer import StoppedError
from skerry_recall.collection import Collection

if TYPE_CHECKING:  # numpy is loaded at the first search or indexing, not at the start
    from skerry_recall.passage import Passage

logger = logging.getLogger(__name__)

SMALL: Final = 2000
"""Limit on the passages and vectors that a search adds (0.2 s); `make` adds larger numbers."""
PACE: Final = 500
"""Passages between two checks whether the job was cancelled."""
WAIT_SECONDS: Final = 0.25
"""Seconds that a search waits for a running job, which may be almost complete."""
MANIFEST: Final = "collection.json"
"""File of a collection that lists its other files."""
_TRIES: Final = 5
"""Number of rounds for concurrent changes; the next search applies the others."""


class DerivedCollection:
    """The collection of one index, in a folder for each generation of the index."""

    def __init__(self, folder: Path, pace: Callable[[], None]) -> None:
        """Takes the parent of the generation folders; `pace` raises when the index is closed."""
        self._folder = folder
        self._end = pace
        self._lock = threading.RLock()
        """Held briefly, and while a search applies a small difference."""
        self._updating = threading.Lock()
        """Held while a large difference is applied, without the other lock."""
        self._halt = threading.Event()
        self._collection: Collection | None = None
        self._generation = ""
        self._on_disk = False
        """True when the folder was written: if it is missing, somebody removed it."""
        self._stale = True
        """True when the collection may lack rows of the tables."""
        self._changes = 0
        self._serves = False
        """True when a collection that lacks many rows has at least half of the rows."""
        self.loss = ""
        """Reason for a rebuild, for people; "" without one."""

    @property
    def exists(self) -> bool:
        """Returns whether a collection was built, also by an earlier process."""
        return self._collection is not None or self._folder.is_dir()

    def drop(self, reason: str = "") -> None:
        """Discards the open collection; with a `reason` it counts as lost and is rebuilt."""
        with self._lock:
            self._collection, self._stale, self._serves = None, True, False
            if reason:
                self.loss = f"The search collection was lost ({reason}); it is rebuilt."
                logger.warning("%s", self.loss)

    def take(self, collection: "Collection", generation: str) -> None:
        """Replaces the collection by this one, which is equal to the tables."""
        with self._lock:
            self._collection, self._generation = collection, generation
            self._stale, self._on_disk, self.loss = False, True, ""

    @property
    def changes(self) -> int:
        """Returns the number of changes of the tables; read it before a snapshot of them."""
        return self._changes

    def usable(
        self, tables: Tables, generation: str, changes: int
    ) -> "tuple[Collection | None, bool]":
        """Returns the collection to search now, and whether it lacks many rows of the tables.

        A small difference is applied, unless the tables changed after the snapshot. The
        collection is None if it lacks more rows than it has.
        """
        if self._stale and self._updating.acquire(timeout=WAIT_SECONDS):
            self._updating.release()
        with self._lock:
            collection = self._open(generation)
            if not self._stale or (changes != self._changes and self._on_disk):
                return collection, False
            if self._updating.locked():
                return (collection if self._serves else None), True
            if is_of(collection, tables):
                self._mark_equal()
                return collection, False
            collection, lag = self._with_small_difference(collection, tables)
            if lag.size <= SMALL:
                self._mark_equal()
                return collection, False
            self._serves = len(lag.lacking) <= lag.shared
            return (collection if self._serves else None), True

    def _with_small_difference(
        self, collection: "Collection", tables: Tables
    ) -> "tuple[Collection, Difference]":
        """Applies a small difference; returns the (perhaps new) collection and the difference."""
        lag = difference(collection, tables)
        try:
            if lag.size <= SMALL:
                equal(collection, tables, lag)
        except (OSError, ValueError) as error:
            collection = self._begin_anew(error)
            lag = difference(collection, tables)
            if lag.size <= SMALL:
                equal(collection, tables, lag)
        return collection, lag

    def _mark_equal(self) -> None:
        """Marks the collection as equal to the tables."""
        self._stale, self._on_disk, self.loss = False, self._exists(), ""

    def make(self, generation: str, reading: "Callable[[Callable[[Tables], None]], None]") -> None:
        """Makes the collection equal to the tables; `reading` calls a function with a snapshot.

        Searches continue meanwhile.

        Raises:
            StoppedError: the job was cancelled; the changes so far are kept.
        """
        with self._updating:
            for _ in range(_TRIES):
                with self._lock:
                    collection = self._open(generation)
                    if not self._stale:
                        return
                    changes = self._changes
                try:
                    reading(partial(self._bring_in, collection))
                except (OSError, ValueError) as error:
                    with self._lock:
                        self._begin_anew(error)
                    continue
                with self._lock:
                    if self._collection is collection and changes == self._changes:
                        self._mark_equal()
                        return
                self._pace()

    def built(self, tables: Tables, generation: str) -> "Collection":
        """Builds a collection of these tables, without replacing the present one."""
        folder = self._folder / generation
        shutil.rmtree(folder, ignore_errors=True)
        collection = Collection(folder)
        self._bring_in(collection, tables)
        return collection

    def apply(
        self, change: "Callable[[Collection, str], None]", size: int, states: tuple[str, str]
    ) -> None:
        """Applies a change of the tables to the collection, if it is open and equal to them.

        `states` are the stamps of the tables before and after the change: the collection gets
        the second only if it had the first, so that no concurrent change is missed. After a
        failure the next search rebuilds the collection.
        """
        with self._lock:
            self._changes += 1
            before, after = states
            if self._collection is None or self._stale:
                return
            if size > SMALL:
                self._stale = True
                return
            try:
                change(self._collection, after if self._collection.stamp == before else "")
            except (OSError, ValueError) as error:
                self.drop(str(error))

    @contextmanager
    def halted(self) -> Generator[None]:
        """Stops a running `make`, and prevents another one during the block."""
        self._halt.set()
        with self._updating:
            self._halt.clear()
            yield

    def purge(self, tables: Tables, generation: str) -> None:
        """Removes all traces of deleted rows from the files. Call it inside `halted`.

        A collection that lacks many rows is deleted. Searches continue while files are written.
        """
        with self._lock:
            collection = self._open(generation)
            if not is_of(collection, tables):
                lag = difference(collection, tables)
                if lag.size > SMALL:
                    shutil.rmtree(self._folder, ignore_errors=True)
                    self.drop()
                    return
                try:
                    equal(collection, tables, lag)
                except (OSError, ValueError) as error:
                    self._begin_anew(error)
                    return
            self._stale = False
        try:
            collection.purge()
        except (OSError, ValueError) as error:
            with self._lock:
                self._begin_anew(error)
        else:
            with self._lock:
                self._on_disk = self._exists()

    def keep_only(self, generation: str | None) -> None:
        """Deletes the folders of other generations."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name != generation:
                shutil.rmtree(folder, ignore_errors=True)

    def _open(self, generation: str) -> "Collection":
        """Opens the collection; starts an empty one if its files were removed."""
        if self._collection is not None and self._generation != generation:
            self.drop()
        if self._collection is not None and self._on_disk and not self._exists():
            self.drop("its folder was removed")
        if self._collection is None:
            self._generation = generation
            self._collection = Collection(self._folder / generation)
            self._stale, self._on_disk = True, self._exists()
        return self._collection

    def _exists(self) -> bool:
        return (self._folder / self._generation / MANIFEST).exists()

    def _begin_anew(self, error: Exception) -> "Collection":
        """Deletes the files, which are damaged or of another version."""
        folder = self._folder / self._generation
        self.drop(str(error))
        shutil.rmtree(folder, ignore_errors=True)
        return self._open(self._generation)

    def _bring_in(self, collection: "Collection", tables: Tables) -> None:
        if is_of(collection, tables):
            return
        lag = difference(collection, tables)
        self._serves = len(lag.lacking) <= lag.shared
        equal(collection, tables, lag, self._paced)

    def _pace(self) -> None:
        if self._halt.is_set():
            raise StoppedError
        self._end()

    def _paced(self, rows: "Iterable[Passage]") -> "Iterator[Passage]":
        self._pace()
        for number, row in enumerate(rows, 1):
            yield row
            if number % PACE == 0:
                self._pace()
