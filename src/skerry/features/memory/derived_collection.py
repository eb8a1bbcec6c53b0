"""Search collection derived from the tables: opened, kept equal to them, rebuilt when lost.

A large difference is brought in by `make`, never by a search. Usable from all threads.
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

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.passage import Passage

logger = logging.getLogger(__name__)

SMALL: Final = 2000
"""Passages and vectors that a search may bring in: 0.2 s. More are brought in beside it."""
PACE: Final = 500
"""Passages between two looks whether it is still wanted."""
PATIENCE_SECONDS: Final = 0.25
"""Seconds that a search waits for a job that may have little left to index."""
MANIFEST: Final = "collection.json"
"""The file that names the others of a collection."""
_TRIES: Final = 5
"""Number of rounds for concurrent changes; the rest is left to the next search."""


class Deriving:
    """The collection of one index, in a folder of the index's generation."""

    def __init__(self, folder: Path, pace: Callable[[], None]) -> None:
        """Takes the folder above those of the generations; `pace` raises where all is to end."""
        self._folder = folder
        self._end = pace
        self._lock = threading.RLock()
        """Held for moments, and while a search brings in what is small."""
        self._making = threading.Lock()
        """Held while much is brought in, without the other lock."""
        self._halt = threading.Event()
        self._collection: Collection | None = None
        self._generation = ""
        self._written = False
        """True when the folder has been written, so that its absence means that it was removed."""
        self._stale = True
        """True when the collection may lack rows of the tables."""
        self._changes = 0
        self._serves = False
        """True when a collection that lacks many rows has most of the tables."""
        self.lost = ""
        """Reason why it is rebuilt, for people."""

    @property
    def is_there(self) -> bool:
        """Returns whether anything was derived, also by an earlier process."""
        return self._collection is not None or self._folder.is_dir()

    def drop(self, why: str = "") -> None:
        """Opens it anew the next time; `why` it was lost."""
        with self._lock:
            self._collection, self._stale, self._serves = None, True, False
            if why:
                self.lost = f"The search collection was lost ({why}); it is rebuilt."
                logger.warning("%s", self.lost)

    def take(self, collection: "Collection", generation: str) -> None:
        """Searches this one from now on: it is equal to the tables."""
        with self._lock:
            self._collection, self._generation = collection, generation
            self._stale, self._written, self.lost = False, True, ""

    @property
    def changes(self) -> int:
        """Returns how often the tables were changed; to be asked before a state of them is read."""
        return self._changes

    def usable(
        self, tables: Tables, generation: str, changes: int
    ) -> "tuple[Collection | None, bool]":
        """Returns the collection to search now, and whether it lacks many rows of the tables.

        A small difference is brought in, unless the tables were changed since they were read. None
        where more is lacking than is there.
        """
        if self._stale and self._making.acquire(timeout=PATIENCE_SECONDS):
            self._making.release()
        with self._lock:
            collection = self._open(generation)
            if not self._stale or (changes != self._changes and self._written):
                return collection, False
            if self._making.locked():
                return (collection if self._serves else None), True
            if is_of(collection, tables):
                self._is_equal()
                return collection, False
            collection, lag = self._brought_in(collection, tables)
            if lag.size <= SMALL:
                self._is_equal()
                return collection, False
            self._serves = len(lag.lacking) <= lag.shared
            return (collection if self._serves else None), True

    def _brought_in(
        self, collection: "Collection", tables: Tables
    ) -> "tuple[Collection, Difference]":
        """Brings in what is small; returns the collection, or one begun anew, and what it was."""
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

    def _is_equal(self) -> None:
        """Notes that the collection has what the tables have."""
        self._stale, self._written, self.lost = False, self._exists(), ""

    def make(self, generation: str, reading: "Callable[[Callable[[Tables], None]], None]") -> None:
        """Brings in all that the tables have; `reading` runs a function with a state of them.

        Searches go on with what is there.

        Raises:
            StoppedError: it is to end; what was brought in stays.
        """
        with self._making:
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
                        self._is_equal()
                        return
                self._pace()

    def made(self, tables: Tables, generation: str) -> "Collection":
        """Returns a collection of these tables that nobody searches yet."""
        folder = self._folder / generation
        shutil.rmtree(folder, ignore_errors=True)
        collection = Collection(folder)
        self._bring_in(collection, tables)
        return collection

    def apply(
        self, change: "Callable[[Collection, str], None]", size: int, states: tuple[str, str]
    ) -> None:
        """Changes the collection as the tables were, if it is open and equal to them.

        `states` are the stamps of the tables before the change and after it: the collection has
        the second only if it had the first, so that no change is missed when several are made at
        once. What fails is made good by the next search.
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
        """Ends a job that brings in much, and begins none for the block."""
        self._halt.set()
        with self._making:
            self._halt.clear()
            yield

    def purge(self, tables: Tables, generation: str) -> None:
        """Leaves nothing in the files of what was removed; for a block of `halted`.

        What lacks much is thrown away as a whole. Searches go on while files are written.
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
                self._written = self._exists()

    def keep_only(self, generation: str | None) -> None:
        """Removes what was derived of indexes that are gone."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name != generation:
                shutil.rmtree(folder, ignore_errors=True)

    def _open(self, generation: str) -> "Collection":
        """Returns the collection; one whose files were removed is begun anew."""
        if self._collection is not None and self._generation != generation:
            self.drop()
        if self._collection is not None and self._written and not self._exists():
            self.drop("its folder was removed")
        if self._collection is None:
            self._generation = generation
            self._collection = Collection(self._folder / generation)
            self._stale, self._written = True, self._exists()
        return self._collection

    def _exists(self) -> bool:
        return (self._folder / self._generation / MANIFEST).exists()

    def _begin_anew(self, error: Exception) -> "Collection":
        """Throws the files away: they are torn, or of another version."""
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
