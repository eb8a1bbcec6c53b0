"""The state database: one writer thread, and concurrent readers."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from skerry.infra import sqlite
from skerry.infra.supervise import in_daemon_thread
from skerry.model.errors import NewerStateError, StoreFailedError
from skerry.store import engine, unreadable_entries
from skerry.store.condition import (
    REMEDIES,
    Condition,
    Storage,
    StoreDamagedError,
    is_database_fault,
    kind,
)
from skerry.store.schema_migrations import migrate
from skerry.store.unit import Reader, Unit
from skerry.store.writer import Writer

T = TypeVar("T")
DATABASE: Final = "state.sqlite"
"""File name in the state directory."""


TRY_SECONDS: Final = 2.0
"""Seconds within which `works` must answer; a slower disk counts as failing."""


def _try(unit: Unit) -> None:
    """Writes 64 KiB to the file, and deletes it again."""
    name = ("0" * 65_536,)
    unit.execute("DELETE FROM mirror WHERE session_id = ?", name)
    unit.execute("INSERT INTO mirror (session_id, seq, size) VALUES (?, 0, 0)", name)
    unit.execute("DELETE FROM mirror WHERE session_id = ?", name)


def no_fault(point: str) -> None:
    """Does nothing at a fault point; tests plant faults instead."""


class TouchedSessions:
    """Changed sessions that a follower has not processed yet.

    The follower is woken some time after the first change, so that it handles many commits at once.
    """

    def __init__(self, seconds: float) -> None:
        self.waiting: set[str] = set()
        self._seconds = seconds
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, session_ids: Iterable[str]) -> None:
        """Adds sessions; a callback for `Store.follow`."""
        self.waiting.update(session_ids)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._due.set)

    async def due(self) -> None:
        """Waits until the collecting time after the first added session is over."""
        await self._due.wait()

    def take(self) -> set[str]:
        """Returns the collected sessions, and starts a new collection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()
        sessions, self.waiting = self.waiting, set()
        return sessions


class Store:
    """The state database. `open_store` creates it.

    Changes that belong together are written in one unit: `await store.write(lambda unit: ...)`.
    """

    def __init__(
        self, writer: Writer, reading: sqlite3.Connection, path: Path, condition: Condition
    ) -> None:
        self.condition = condition
        self._path = path
        self._writer = writer
        self._connection = reading
        self._reading = Reader(reading, condition.broken)
        self._lock = Lock()

    async def write(self, work: Callable[[Unit], T]) -> T:
        """Runs `work` in the writer thread; returns its value after COMMIT.

        The unit is written even if the caller is cancelled while it waits. `work` may run several
        times, for example after a rollback: it must change nothing but rows, use no object of the
        event loop, and get ids and times from the caller.

        Raises:
            StoreFailedError: the transaction was not committed; nothing of the unit is stored.
            Exception: any error of `work`; nothing of the unit is stored.
        """
        return await self._writer.write(work)

    def post(self, work: Callable[[Unit], object]) -> None:
        """Queues `work` for the writer thread, in order, without waiting for it."""
        self._writer.post(work)

    def ride(self, work: Callable[[Unit], object]) -> None:
        """Runs `work` in the transaction of the next written unit, without waiting for it.

        It needs no separate transaction, and a failure of the other unit does not undo it.
        """
        self._writer.ride(work)

    def follow(self, touch: Callable[[list[str]], None]) -> None:
        """Calls `touch` in the event loop, after each COMMIT, with the sessions that it changed."""
        self._writer.followers.append(touch)

    async def works(self) -> bool:
        """Returns whether the gateway can serve; tries a write if the last one failed."""
        if self.condition.writing is not Storage.OK:
            with anyio.move_on_after(TRY_SECONDS), suppress(StoreFailedError):
                await self._writer.write(_try)
        return self.condition.works

    def refuse_damaged(self) -> None:
        """Refuses new work if the file is damaged, because new rows may be lost too.

        Raises:
            StoreDamagedError: the file is damaged.
        """
        if self.condition.damage:
            raise StoreDamagedError(self.condition.damage)

    async def check(self, *, whole: bool) -> list[str]:
        """Checks the file in a separate thread; returns the problems and updates the condition.

        Args:
            whole: True to compare the indexes with their tables too.

        Raises:
            StoreFailedError: the file could not be checked.
        """
        self.condition.checking = True
        try:
            look = partial(sqlite.problems, self._path, whole=whole)
            problems = await in_daemon_thread(look, "store-check")
        except sqlite3.Error as error:
            raise StoreFailedError(f"{self._path} cannot be checked: {error}") from error
        finally:
            self.condition.checking = False
        self.condition.damage = problems[0] if problems else ""
        if not problems:
            problems = [entry.message for entry in await self._look_at_entries()]
        return problems

    async def _look_at_entries(self) -> list[unreadable_entries.BrokenEntry]:
        """Searches entries whose bytes have changed, which SQLite does not detect."""
        broken = await self.scan(unreadable_entries.scan, whole=False)
        self.condition.entries = {(entry.session_id, entry.seq): entry.reason for entry in broken}
        return broken

    async def purge(self) -> None:
        """Removes deleted and overwritten data from the files; writers wait meanwhile.

        Rewrites the database, about a second for each 100 MB, and truncates its log.

        Raises:
            StoreFailedError: a reader locked the file for too long, or the disk is full.
        """

        def purge() -> bool:
            with self._writer.turn:
                return engine.rewrite(self._path)

        try:
            purged = await in_daemon_thread(purge, "store-purge")
        except sqlite3.Error as error:
            raise StoreFailedError(f"{self._path} could not be rewritten: {error}") from error
        if not purged:
            raise StoreFailedError(f"the log of {self._path} is in use and was not truncated")

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Runs `work` on the reading connection, in a worker thread; it sees committed data.

        Raises:
            StoreFailedError: the database could not be read.
        """
        return await anyio.to_thread.run_sync(self.read_now, work)

    async def scan(self, work: Callable[[Reader], T], *, whole: bool = True) -> T:
        """Runs `work`, which may take long, on a separate connection in a separate thread.

        It reads from one snapshot, unless `whole` is false: then the log need not keep the data of
        the snapshot.

        Raises:
            StoreFailedError: the database could not be read.
        """

        def look() -> T:
            with closing(sqlite.connect(self._path, read_only=True)) as connection:
                reader = Reader(connection, self.condition.broken)
                with engine.snapshot(connection) if whole else nullcontext():
                    return work(reader)

        try:
            return await in_daemon_thread(look, "store-scan")
        except sqlite3.DatabaseError as error:
            raise StoreFailedError(f"{self._path} cannot be read: {error}") from error

    def read_now(self, work: Callable[[Reader], T]) -> T:
        """Runs `work` as `read` does, but in the calling thread, which must be a worker thread.

        It reads from one snapshot.
        """
        try:
            with self._lock, engine.snapshot(self._connection):
                return work(self._reading)
        except sqlite3.DatabaseError as error:
            if not is_database_fault(error):
                raise
            self.condition.read(error)
            failed = StoreFailedError(f"{self._path} cannot be read: {error}")
            if kind(error) is Storage.CORRUPT:
                failed.remedy = REMEDIES[Storage.CORRUPT]
            raise failed from error


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    on_commit: Callable[[list[str]], None] = lambda _: None,
    reach: Callable[[str], None] = no_fault,
) -> AsyncGenerator[Store]:
    """Opens, migrates and owns the database for the block; its end writes all queued units.

    Args:
        path: The file; created with mode 0600 if missing.
        on_commit: Called in the event loop with the sessions that a commit changed.
        reach: Called at each named fault point; tests plant faults there.

    Raises:
        NewerStateError: a newer version wrote the file.
        StoreDamagedError: the file is damaged or not a database.
        StoreFailedError: the file cannot be opened.
    """
    try:
        writing = _opened(path)
    except sqlite3.Error as error:
        if kind(error) is Storage.CORRUPT:
            raise StoreDamagedError(str(error)) from error
        raise StoreFailedError(f"{path} cannot be opened: {error}.") from error
    reading = sqlite.connect(path, read_only=True)
    condition = Condition()
    writer = Writer(writing, asyncio.get_running_loop(), on_commit, reach, condition)
    writer.start()
    try:
        yield Store(writer, reading, path, condition)
    finally:
        writer.close()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(writer.join)
        reading.close()
        writing.close()


def _opened(path: Path) -> sqlite3.Connection:
    """Returns a writing connection, after the migration to the newest schema."""
    connection = sqlite.connect(path)
    try:
        migrate(connection, path)
    except sqlite.NewerSchemaError as error:
        connection.close()
        raise NewerStateError(str(path), error.version, error.newest) from error
    except BaseException:
        connection.close()
        raise
    return connection
