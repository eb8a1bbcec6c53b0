"""Runs units of SQL: the interface for all engines, and the SQLite engine."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, Self, TypeVar

import anyio
import anyio.to_thread

from skerry_relayer.errors import DownError, RelayerError
from skerry_relayer.sqlite_files import connect, migrate

logger = logging.getLogger(__name__)
T = TypeVar("T")
Row = tuple[Any, ...]
_MAX_UNITS: Final = 200
"""Maximum number of units in one transaction."""
_READERS: Final = 3


class Unit(Protocol):
    """Statements that are committed together. Parameters are written as `?`."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Runs a statement; returns how many rows it changed."""
        ...

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Returns the rows of a query."""
        ...

    def first_row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """Returns the first row of a query, or None."""
        ...


class Database(Protocol):
    """Runs units. A failure of the engine raises `DownError`."""

    async def write(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit; returns its result once it is durable. An exception rolls it back."""
        ...

    async def read(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit that only reads, on one consistent state of the database."""
        ...


class SqliteUnit:
    """A unit on a connection of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Runs a statement; returns how many rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Returns the rows of a query."""
        return self._connection.execute(sql, values).fetchall()

    def first_row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """Returns the first row of a query, or None."""
        row: Row | None = self._connection.execute(sql, values).fetchone()
        return row


class _Job:
    """One unit that waits for the writer thread, and the future of its result."""

    __slots__ = ("error", "future", "result", "unit")

    def __init__(self, unit: Callable[[Unit], Any], future: "asyncio.Future[Any]") -> None:
        self.unit = unit
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SqliteDatabase(anyio.AsyncContextManagerMixin):
    """One file with one writing thread; several units may share a transaction.

    Use as `async with SqliteDatabase(path, steps) as database`.
    """

    def __init__(self, path: Path, steps: tuple[str, ...]) -> None:
        self._path = path
        self._steps = steps
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._readers: list[sqlite3.Connection] = []
        self._limit = anyio.CapacityLimiter(_READERS)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        writer = await anyio.to_thread.run_sync(self._opened)
        thread = threading.Thread(
            target=self._write_all, args=(writer, asyncio.get_running_loop()), name="relayer-writer"
        )
        thread.start()
        try:
            yield self
        finally:
            self._jobs.put(None)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join)
            for connection in self._readers:
                connection.close()
            self._readers.clear()

    async def write(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit; returns its result after COMMIT. An exception rolls back this unit only."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(unit, future))
        try:
            return await future
        except sqlite3.Error as error:
            raise _down(error) from error

    async def read(self, unit: Callable[[Unit], T]) -> T:
        """Runs a unit that only reads, in a separate transaction."""
        try:
            return await anyio.to_thread.run_sync(self._read, unit, limiter=self._limit)
        except sqlite3.Error as error:
            raise _down(error) from error

    def _read(self, unit: Callable[[Unit], T]) -> T:
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = connect(self._path, thread_bound=False)
        try:
            connection.execute("BEGIN")
            try:
                return unit(SqliteUnit(connection))
            finally:
                connection.execute("ROLLBACK")
        finally:
            self._readers.append(connection)

    def _opened(self) -> sqlite3.Connection:
        connection = connect(self._path, thread_bound=False)
        migrate(connection, self._steps)
        return connection

    def _write_all(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Runs the units of the queue in the writing thread until it receives None."""
        while (first := self._jobs.get()) is not None:
            batch, is_last = [first], False
            while len(batch) < _MAX_UNITS:
                try:
                    following = self._jobs.get_nowait()
                except Empty:
                    break
                if following is None:
                    is_last = True
                    break
                batch.append(following)
            _write(connection, batch)
            try:
                loop.call_soon_threadsafe(_settle, batch)
            except RuntimeError:  # the loop has ended, so no task waits
                logger.debug(
                    "the event loop ended before the results of %d units were delivered", len(batch)
                )
            if is_last:
                break
        connection.close()


def _write(connection: sqlite3.Connection, batch: list[_Job]) -> None:
    """Runs a batch in one transaction; a unit that fails is rolled back alone."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in batch:
            _write_one(connection, job)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        for job in batch:
            job.error = job.error or error
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _write_one(connection: sqlite3.Connection, job: _Job) -> None:
    connection.execute("SAVEPOINT unit")
    try:
        job.result = job.unit(SqliteUnit(connection))
    except Exception as error:  # noqa: BLE001 - raised in the task that waits for the unit
        job.error = error
        connection.execute("ROLLBACK TO unit")
    connection.execute("RELEASE unit")


def _settle(batch: list[_Job]) -> None:
    for job in batch:
        job.settle()


def _down(error: sqlite3.Error) -> RelayerError:
    return DownError(f"The database does not answer: {error}.")
