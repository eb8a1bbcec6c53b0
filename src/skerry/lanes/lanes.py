"""Lanes: one run at a time for each session, a limit over all of them, and nobody starves.

A session that has work waits in one queue of sessions; it gets a slot for one run and then goes to
the end of that queue. So a session with a hundred messages delays another by one run, not by a
hundred.
"""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import anyio

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]


class Lanes(anyio.AsyncContextManagerMixin):
    """Runs jobs in order per key, at most `limit` at a time. Use as `async with`.

    Leaving the block cancels the jobs that still run and drops those that wait; `drain` first to
    let them end. What they stand for is in the store, and the next start takes it up.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: set[str] = set()
        self._waiting: dict[str, deque[Job]] = {}
        self._ready: deque[str] = deque()
        self._closed = False
        self._quiet = anyio.Event()
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as self._tasks:
            try:
                yield self
            finally:
                self.close()
                self._tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Start nothing more."""
        self._closed = True
        self._waiting.clear()
        self._ready.clear()
        if not self._running:
            self._quiet.set()

    async def drain(self, seconds: float) -> bool:
        """Start nothing more and wait for what runs; return whether all of it ended in time."""
        self.close()
        with anyio.move_on_after(seconds):
            await self._quiet.wait()
        return self._quiet.is_set()

    def idle(self, key: str) -> bool:
        """Return whether nothing of the key runs or waits."""
        return key not in self._running and key not in self._waiting

    def submit(self, key: str, job: Job, *, first: bool = False) -> None:
        """Put the job into the key's lane, at the end or `first`; it starts where there is room."""
        if self._closed:
            return
        if key not in self._waiting:
            self._waiting[key] = deque()
            if key not in self._running:
                self._ready.append(key)
        if first:
            self._waiting[key].appendleft(job)
        else:
            self._waiting[key].append(job)
        self._start()

    def _start(self) -> None:
        while self._ready and len(self._running) < self._limit:
            key = self._ready.popleft()
            queue = self._waiting[key]
            job = queue.popleft()
            if not queue:
                del self._waiting[key]
            self._running.add(key)
            self._tasks.start_soon(self._run, key, job)

    async def _run(self, key: str, job: Job) -> None:
        try:
            await job()
        except Exception:
            # One job's failure must not stop the lane: the others in it are someone's messages.
            logger.exception("a job in lane %s failed", key)
        finally:
            self._running.discard(key)
            if key in self._waiting:
                self._ready.append(key)
            self._start()
            if self._closed and not self._running:
                self._quiet.set()
