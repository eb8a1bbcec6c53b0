"""One index file: opened, checked, read by many threads, written by one, replaced whole.

The file can be made again from what it indexes, so a damaged one is thrown away, not mended. It
belongs to one process at a time, the one that holds the lock of the state directory.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from skerry.features.memory.index_schema import STEPS
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.residue import is_left
from skerry.infra.atomic import make_private
from skerry.infra.sqlite import NewerSchemaError, connect, migrate, problems
from skerry.model.memory import MemoryBackendError

SPARE: Final = 4
"""Open connections that are kept for readers."""
SWAP_SECONDS: Final = 30.0
"""Seconds that a replacement waits for readers."""
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class IndexDamagedError(Exception):
    """The index cannot be read; it has to be made anew."""


def nothing(_: str) -> None:
    """Goes on: the fault points of a program that is not under test."""


class IndexDatabase:
    """The index at `path`. `open` it before use and `close` it after; usable from all threads."""

    def __init__(self, path: Path, reach: Callable[[str], None] = nothing) -> None:
        self.path = path
        self._reach = reach
        self._writer: sqlite3.Connection | None = None
        self._writing = threading.RLock()
        self._spare: list[sqlite3.Connection] = []
        self._reading = 0
        self._free = threading.Condition()

    def open(self) -> str | None:
        """Opens or creates it; returns why the old one was thrown away, where it was.

        After a process that did not end in order the file is looked through first.

        Raises:
            MemoryBackendError: it cannot be written: a full or read-only disk, no permission.
        """
        with self._noticed(OSError):
            make_private(self.path.parent)
            _remove(self._temporary)
        damage = None
        with suppress(FileNotFoundError), self._noticed(PermissionError):
            if _beside(self.path, "-wal").stat().st_size:
                damage = self.damage(whole=False)
        if damage is None:
            try:
                with self._noticed(OSError):
                    self._connect()
                    return None
            except IndexDamagedError as error:
                damage = str(error)
        self.discard()
        return damage

    def close(self) -> None:
        """Closes it; what was written is in the one file then."""
        with self._writing, self._free:
            for connection in (*self._spare, self._writer):
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()
            self._spare.clear()
            self._writer = None

    def discard(self) -> None:
        """Throws the file away and begins an empty one."""
        with self._writing, self._free, self._noticed(OSError):
            self.close()
            _remove(self.path)
            self._connect()

    def damage(self, *, whole: bool) -> str | None:
        """Returns the damage of the file; None if there is none.

        `whole` compares the full-text index and the indexes with the tables too.
        """
        if not self.path.exists():
            return None
        with suppress(sqlite3.OperationalError):
            damages = problems(self.path, whole=whole)
            return damages[0] if damages else None
        return None

    @contextmanager
    def reading(self) -> Generator[Tables]:
        """Gives one state of the tables for the block, whatever is written meanwhile.

        Raises:
            DamagedError: the file is damaged.
            MemoryBackendError: it cannot be read now.
        """
        with self._free:
            self._reading += 1
            connection = self._spare.pop() if self._spare else None
        try:
            with self._noticed():
                if connection is None:
                    connection = connect(self.path, read_only=True)
                connection.execute("BEGIN")
                try:
                    yield Tables(connection)
                finally:
                    connection.execute("ROLLBACK")
        except BaseException:
            if connection is not None:
                connection.close()
                connection = None
            raise
        finally:
            with self._free:
                self._reading -= 1
                if connection is not None and len(self._spare) < SPARE:
                    self._spare.append(connection)
                elif connection is not None:
                    connection.close()
                self._free.notify_all()

    @contextmanager
    def writing(self) -> Generator[Tables]:
        """Gives the tables for the block and commit it; what raises in it is undone.

        Raises:
            DamagedError: the file is damaged.
            MemoryBackendError: it cannot be written: a full disk, say. Nothing is changed.
        """
        with self._writing, self._noticed(OSError):
            if self._writer is None:
                raise MemoryBackendError("The memory's index is closed.")
            with _transaction(self._writer):
                yield Tables(self._writer)
                self._reach("index.commit")
            self._reach("index.committed")

    def purge(self, pieces: Sequence[bytes] | None) -> None:
        """Leaves nothing of rows that were deleted, with these texts and vectors, in any file.

        What is deleted is overwritten at once; the file is written anew only where a copy was left
        between other rows, or where the pieces are not known. Readers go on but for moments.

        Raises:
            DamagedError, MemoryBackendError: as `writing`; or it is read without end.
        """
        with self._writing, self._noticed(OSError):
            if self._writer is None:
                raise MemoryBackendError("The memory's index is closed.")
            self._cut(self._writer)
            if pieces is None or is_left(self.path, pieces):
                self._reach("index.rewriting")
                self._writer.execute("VACUUM")
                self._cut(self._writer)
            self._reach("index.purged")

    def _cut(self, writer: sqlite3.Connection) -> None:
        """Takes the log into the file, most of it beside readers, and cuts it to nothing."""
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with self._free:
            self._alone()

    def replace(
        self, build: Callable[[Tables], None], swapped: Callable[[], None] = lambda: None
    ) -> None:
        """Writes a new file beside the old one, which it replaces when it is complete.

        Vectors that the new one can use are carried over. A crash leaves one or the other, whole.

        Args:
            build: Fills the new tables.
            swapped: Called while nobody reads, right after the new file has its name.

        Raises:
            DamagedError, MemoryBackendError: as `writing`; the old file is as it was.
        """
        new = self._temporary
        with self._writing, self._noticed(OSError):
            try:
                _remove(new)
                with closing(_temporary(new)) as made:
                    tables = Tables(made)
                    with _transaction(made):
                        if self._writer is not None:
                            tables.number_after(Tables(self._writer))
                        build(tables)
                    self._reach("swap.built")
                    made.execute("ATTACH ? AS old", (str(self.path),))
                    with _transaction(made):
                        tables.carry_over()
                    made.execute("DETACH old")
                _sync(new)
                self._reach("swap.synced")
                self._swap(new, swapped)
            finally:
                _remove(new)

    def _swap(self, new: Path, swapped: Callable[[], None]) -> None:
        with self._free:
            self._alone()  # a log that outlives its file would be read into the new one
            self.close()
            try:
                self._reach("swap.closed")
                for suffix in ("-wal", "-shm"):
                    _beside(self.path, suffix).unlink(missing_ok=True)
                new.replace(self.path)
                self._reach("swap.renamed")
                _sync(self.path.parent)
            finally:
                self._connect()
            swapped()

    def _alone(self) -> None:
        """Waits until nobody reads, and cuts the log to nothing. `_free` is held."""
        if not self._free.wait_for(lambda: not self._reading, SWAP_SECONDS):
            raise MemoryBackendError("The readers of the memory's index do not end.")
        if self._writer is not None:
            (busy, _, _) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise MemoryBackendError("Another program has the memory's index open.")

    @property
    def _temporary(self) -> Path:
        return _beside(self.path, ".new")

    def _connect(self) -> None:
        connection = connect(self.path)
        try:
            # What a loss of power takes of it is indexed again.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
            migrate(connection, self.path, STEPS, keep=False)
        except NewerSchemaError as error:
            connection.close()
            raise IndexDamagedError(f"it was written by a newer version: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._writer = connection

    @contextmanager
    def _noticed(self, *more: type[Exception]) -> Generator[None]:
        """Turns what SQLite raises, and these, into what callers know."""
        kinds: tuple[type[Exception], ...] = (sqlite3.Error, *more)
        try:
            yield
        except kinds as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _DAMAGE or "vtable constructor failed" in str(error):
                raise IndexDamagedError(str(error)) from error
            raise refusal(error) from error


def refusal(error: Exception) -> MemoryBackendError:
    """Returns the error for people when the index cannot be read or written, with the remedy."""
    made = MemoryBackendError(f"The memory's index cannot be used: {error}.")
    if "full" in str(error) or "No space" in str(error):
        made.remedy = "Make room on the disk; the index is then updated by itself."
    return made


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _temporary(path: Path) -> sqlite3.Connection:
    """Returns a database that nobody sees yet: without a log, since a crash only wastes it."""
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = MEMORY")  # an error in `build` can be rolled back
    connection.execute("PRAGMA synchronous = OFF")
    migrate(connection, path, STEPS, keep=False)
    return connection


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        _beside(path, suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
