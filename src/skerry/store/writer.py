"""The writer thread: many units in one transaction, whose callers get results after the COMMIT.

Group commit: the thread takes all queued units, writes each unit after the first in a savepoint, so
that a failing unit does not affect the others, commits once, and wakes the event loop once.
"""

import logging
import queue
import sqlite3
import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from msgspec import Struct

from skerry.model.errors import StoreClosedError, StoreFailedError
from skerry.store.condition import Condition, Storage, is_database_fault, kind
from skerry.store.unit import Unit

logger = logging.getLogger(__name__)

T = TypeVar("T")
MAX_UNITS: Final = 256
"""Limit on the units of one transaction, which bounds the wait of the first."""
MAX_RIDERS: Final = 10_000
"""Limit on the units that wait for the transaction of another unit; reached only on a full disk."""

QUIET_SECONDS: Final = 60.0
"""Seconds between two log lines about a full disk: checkpoints are tried every second."""


class _Job(Struct):
    work: Callable[[Unit], Any]
    future: Future[Any] | None
    touched: list[str]
    rides: bool = False
    value: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the writing connection. Call `start` in the event loop that submits the units."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        loop: AbstractEventLoop,
        on_commit: Callable[[list[str]], None],
        reach: Callable[[str], None],
        condition: Condition,
    ) -> None:
        self._connection = connection
        self._loop = loop
        self.followers = [on_commit]
        self._reach = reach
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._riders: deque[_Job] = deque(maxlen=MAX_RIDERS)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._open = True
        self._condition = condition
        self._ending = False
        self._quiet_until = 0.0
        self.turn = threading.Lock()
        """Held while a transaction is written; another holder blocks the writer."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Refuses further units. Call it in the event loop, so that no unit follows the end."""
        self._open = False
        self._jobs.put(None)

    def join(self) -> None:
        """Waits until all queued units are written. Blocks."""
        self._thread.join()

    def write(self, work: Callable[[Unit], T]) -> Future[T]:
        """Queues a unit; the future gets its value after the COMMIT.

        The future fails with the error of `work`, or with `StoreFailedError` if the transaction was
        not committed; in both cases nothing of the unit is stored.
        """
        future: Future[T] = self._loop.create_future()
        self._put(_Job(work, future, []))
        return future

    def post(self, work: Callable[[Unit], object]) -> None:
        """Queues a unit without a waiting caller; a failure is logged."""
        self._put(_Job(work, None, []))

    def ride(self, work: Callable[[Unit], object]) -> None:
        """Adds a unit to the next transaction, or to the last one; it does not wake the thread.

        A unit that fails on a full disk is added to the next transaction again.
        """
        self._riders.append(_Job(work, None, [], rides=True))

    def _put(self, job: _Job) -> None:
        if not self._open:
            raise StoreClosedError("the store is closed")
        self._jobs.put(job)

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            with self.turn:
                self._write(batch)
            for job in reversed(batch):
                if job.rides and isinstance(job.error, StoreFailedError):
                    self._riders.appendleft(_Job(job.work, None, [], rides=True))
            self._loop.call_soon_threadsafe(self._answer, batch)

    def _take(self) -> list[_Job] | None:
        """Waits for a job, then takes all queued jobs; None after the end of the queue."""
        first = self._jobs.get()
        batch = [self._riders.popleft() for _ in range(len(self._riders))]
        if first is None:
            if not batch or self._ending:
                return None
            self._ending = True
            self._jobs.put(None)
            return batch
        batch.append(first)
        while len(batch) < MAX_UNITS:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            batch.append(job)
        return batch

    def _write(self, batch: list[_Job]) -> None:
        changes = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._write_first(batch[0])
            for job in batch[1:]:
                self._write_one(job)
            self._reach("store.before-commit")
            self._connection.execute("COMMIT")
            unwritten = any(isinstance(job.error, StoreFailedError) for job in batch)
            failing = self._condition.writing is not Storage.OK
            if failing and not unwritten and self._connection.total_changes != changes:
                self._condition.note_success()
            self._reach("store.after-commit")
        except (sqlite3.Error, MemoryError) as error:  # `sqlite3` raises it for SQLITE_NOMEM
            if self._connection.in_transaction:
                # The thread must not end; a failing BEGIN of the next batch is handled here too.
                with suppress(sqlite3.Error, MemoryError):
                    self._connection.execute("ROLLBACK")
            self._fail(batch, _as_sqlite(error))

    def _fail(self, batch: list[_Job], error: sqlite3.Error) -> None:
        """Writes every unit in a separate transaction, so that a full disk fails only large units.

        If another program locks the file, all fail at once: each would wait for the lock again.
        """
        if len(batch) == 1 or kind(error) is Storage.BUSY:
            for job in batch:
                job.error = job.error or self._failed(error)
            return
        for job in batch:
            job.error = None
            self._write([job])

    def _write_first(self, job: _Job) -> None:
        """Writes the first unit of a transaction; if it fails, starts the transaction again."""
        self._do(job)
        if job.error is not None:
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")

    def _write_one(self, job: _Job) -> None:
        self._connection.execute("SAVEPOINT unit")
        self._do(job)
        if job.error is not None:
            self._connection.execute("ROLLBACK TO unit")
        self._connection.execute("RELEASE unit")

    def _do(self, job: _Job) -> None:
        unit = Unit(self._connection, self._condition.broken)
        try:
            job.value = job.work(unit)
            job.touched = unit.touched
        except Exception as error:
            job.error = self._failed(error) if is_database_fault(error) else error
            if not self._connection.in_transaction:  # a full disk rolls back all units
                raise sqlite3.OperationalError(str(error)) from error

    def _failed(self, error: sqlite3.Error) -> StoreFailedError:
        self._condition.note_failure(error)
        failed = StoreFailedError(f"the database was not written: {error}")
        failed.__cause__ = error
        return failed

    def _answer(self, batch: list[_Job]) -> None:
        """Returns the values to the callers, and the changed sessions to the followers."""
        touched: list[str] = []
        for job in batch:
            if job.future is None:
                if job.error is not None:
                    self._complain(job.error)
            elif not job.future.done():
                if job.error is None:
                    job.future.set_result(job.value)
                else:
                    job.future.set_exception(job.error)
            if job.error is None:
                touched += job.touched
        if touched:
            self._tell(touched)

    def _tell(self, session_ids: list[str]) -> None:
        for follow in self.followers:
            follow(session_ids)

    def _complain(self, error: BaseException) -> None:
        """Logs the failure of a posted unit, with a traceback if the unit itself raised."""
        if not isinstance(error, StoreFailedError):
            logger.error("a posted unit failed", exc_info=error)
            return
        now = self._loop.time()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            logger.warning("a write without a waiting caller was not stored: %s", error)


def _as_sqlite(error: sqlite3.Error | MemoryError) -> sqlite3.Error:
    return error if isinstance(error, sqlite3.Error) else sqlite3.OperationalError("out of memory")
