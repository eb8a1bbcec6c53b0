"""One index file: open, check, read from many threads, write from one, replace as a whole.

The file can be rebuilt from the indexed files, so a damaged one is deleted, not repaired. It
belongs to one process at a time, the holder of the lock of the state directory.
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
from skerry.features.memory.residue import has_residue
from skerry.infra.atomic import make_private
from skerry.infra.sqlite import NewerSchemaError, connect, migrate, problems
from skerry.model.memory import MemoryBackendError

SPARE: Final = 4
"""Limit on open connections kept for readers."""
SWAP_SECONDS: Final = 30.0
"""Seconds that a replacement waits for readers."""
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class IndexDamagedError(Exception):
    """The index cannot be read; it must be rebuilt."""


def no_fault(_: str) -> None:
    """Does nothing: the fault points outside tests."""


class IndexDatabase:
    """The index at `path`. Call `open` before use and `close` after it. Thread-safe."""

    def __init__(self, path: Path, reach: Callable[[str], None] = no_fault) -> None:
        self.path = path
        self._reach = reach
        self._writer: sqlite3.Connection | None = None
        self._writing = threading.RLock()
        self._spare: list[sqlite3.Connection] = []
        self._reading = 0
        self._free = threading.Condition()

    def open(self) -> str | None:
        """Opens or creates the file; returns the damage if an old one was deleted, else None.

        The file is checked first when the last process was not shut down cleanly.

        Raises:
            MemoryBackendError: it cannot be written: a full or read-only disk, no permission.
        """
        with self._translated(OSError):
            make_private(self.path.parent)
            _remove(self._temporary)
        damage = None
        with suppress(FileNotFoundError), self._translated(PermissionError):
            if _sibling(self.path, "-wal").stat().st_size:
                damage = self.damage(whole=False)
        if damage is None:
            try:
                with self._translated(OSError):
                    self._connect()
                    return None
            except IndexDamagedError as error:
                damage = str(error)
        self.discard()
        return damage

    def close(self) -> None:
        """Closes the connections; the log is then merged into the file."""
        with self._writing, self._free:
            for connection in (*self._spare, self._writer):
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()
            self._spare.clear()
            self._writer = None

    def discard(self) -> None:
        """Deletes the file and creates an empty one."""
        with self._writing, self._free, self._translated(OSError):
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
        """Gives a consistent snapshot of the tables for the block.

        Raises:
            IndexDamagedError: the file is damaged.
            MemoryBackendError: it cannot be read now.
        """
        with self._free:
            self._reading += 1
            connection = self._spare.pop() if self._spare else None
        try:
            with self._translated():
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
        """Gives the tables for one transaction; rolls it back if the block raises.

        Raises:
            IndexDamagedError: the file is damaged.
            MemoryBackendError: it cannot be written, as on a full disk. Nothing is changed.
        """
        with self._writing, self._translated(OSError):
            if self._writer is None:
                raise MemoryBackendError("The memory's index is closed.")
            with _transaction(self._writer):
                yield Tables(self._writer)
                self._reach("index.commit")
            self._reach("index.committed")

    def purge(self, fragments: Sequence[bytes] | None) -> None:
        """Removes all traces of deleted rows, with these texts and vectors, from the files.

        SQLite overwrites deleted rows at once; the file is only rewritten if a copy remains between
        other rows, or if the fragments are not known (None). Readers wait for moments only.

        Raises:
            IndexDamagedError, MemoryBackendError: as `writing`; or the readers do not finish.
        """
        with self._writing, self._translated(OSError):
            if self._writer is None:
                raise MemoryBackendError("The memory's index is closed.")
            self._truncate_log(self._writer)
            if fragments is None or has_residue(self.path, fragments):
                self._reach("index.rewriting")
                self._writer.execute("VACUUM")
                self._truncate_log(self._writer)
            self._reach("index.purged")

    def _truncate_log(self, writer: sqlite3.Connection) -> None:
        """Merges the log into the file, mostly while readers continue, and truncates it."""
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with self._free:
            self._wait_for_readers()

    def replace(
        self, build: Callable[[Tables], None], swapped: Callable[[], None] = lambda: None
    ) -> None:
        """Writes a new file next to the old one, and replaces the old one when it is complete.

        Vectors of texts in the new file are copied. After a crash either file is complete.

        Args:
            build: Fills the new tables.
            swapped: Called without readers, right after the new file was renamed.

        Raises:
            IndexDamagedError, MemoryBackendError: as `writing`; the old file is unchanged.
        """
        new = self._temporary
        with self._writing, self._translated(OSError):
            try:
                _remove(new)
                with closing(_temporary(new)) as replacement:
                    tables = Tables(replacement)
                    with _transaction(replacement):
                        if self._writer is not None:
                            tables.number_after(Tables(self._writer))
                        build(tables)
                    self._reach("swap.built")
                    replacement.execute("ATTACH ? AS old", (str(self.path),))
                    with _transaction(replacement):
                        tables.carry_over()
                    replacement.execute("DETACH old")
                _sync(new)
                self._reach("swap.synced")
                self._swap(new, swapped)
            finally:
                _remove(new)

    def _swap(self, new: Path, swapped: Callable[[], None]) -> None:
        with self._free:
            # A remaining log of the old file would be merged into the new one.
            self._wait_for_readers()
            self.close()
            try:
                self._reach("swap.closed")
                for suffix in ("-wal", "-shm"):
                    _sibling(self.path, suffix).unlink(missing_ok=True)
                new.replace(self.path)
                self._reach("swap.renamed")
                _sync(self.path.parent)
            finally:
                self._connect()
            swapped()

    def _wait_for_readers(self) -> None:
        """Waits until there are no readers, and truncates the log. `_free` is held."""
        if not self._free.wait_for(lambda: not self._reading, SWAP_SECONDS):
            raise MemoryBackendError(
                f"The readers of the memory's index did not finish within {SWAP_SECONDS:g} s."
            )
        if self._writer is not None:
            (busy, _, _) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise MemoryBackendError("Another program has the memory's index open.")

    @property
    def _temporary(self) -> Path:
        return _sibling(self.path, ".new")

    def _connect(self) -> None:
        connection = connect(self.path)
        try:
            # Rows that a power failure loses are indexed again.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten
            migrate(connection, self.path, STEPS, keep=False)
        except NewerSchemaError as error:
            connection.close()
            raise IndexDamagedError(f"it was written by a newer version: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._writer = connection

    @contextmanager
    def _translated(self, *exceptions: type[Exception]) -> Generator[None]:
        """Translates errors of SQLite, and these exceptions, into errors of this module."""
        kinds: tuple[type[Exception], ...] = (sqlite3.Error, *exceptions)
        try:
            yield
        except kinds as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _DAMAGE or "vtable constructor failed" in str(error):
                raise IndexDamagedError(str(error)) from error
            raise refusal(error) from error


def refusal(error: Exception) -> MemoryBackendError:
    """Returns the error for an index that cannot be read or written, with the remedy."""
    failure = MemoryBackendError(f"The memory's index cannot be used: {error}.")
    if "full" in str(error) or "No space" in str(error):
        failure.remedy = "Free disk space; the index is then updated automatically."
    return failure


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
    """Returns a new database that is not in use yet: it needs no log to survive a crash."""
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = MEMORY")  # an error in `build` can be rolled back
    connection.execute("PRAGMA synchronous = OFF")
    migrate(connection, path, STEPS, keep=False)
    return connection


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        _sibling(path, suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
