"""Lanes: one run at a time for each session, a limit for each group of sessions, and fairness.

Sessions with work wait in one queue per group; a session gets a slot for one run and then moves to
the end of the queue. So a session with a hundred messages delays another by one run, not by a
hundred.

Sub-agents are a separate group: a run that waits for its sub-agents must not hold a slot that they
need. Scheduled runs are a separate group, so that they take no slots from people.

A job can be delayed when its turn comes. Meanwhile its session holds no slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

import anyio
from msgspec import Struct, field

from skerry.ports.dispatch import LaneUse

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

SUBAGENT: Final = ":subagent:"
CRON: Final = ":cron:"

Job = Callable[[], Awaitable[object]]


def at_once() -> float:
    """Returns no delay."""
    return 0.0


class _WaitingJob(Struct, frozen=True):
    """A job in a lane; if it is not `counted`, it needs the lane but no slot."""

    job: Job
    counted: bool
    delay: Callable[[], float]


class _Group(Struct):
    """Session keys that share a limit."""

    name: str
    limit: int
    running: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    """Keys of active runs that hold no slot."""
    ready: deque[str] = field(default_factory=deque)
    """Keys with work, in the order of their turn."""
    returning: deque[tuple[str, anyio.Event]] = field(default_factory=deque)
    """Keys whose job waits for a slot again, with the event that wakes it; they have priority."""

    @property
    def used(self) -> int:
        return len(self.running) - len(self.uncounted)


class Lanes(anyio.AsyncContextManagerMixin):
    """Runs jobs in order per key, at most `limit` at a time. Use as `async with`.

    In addition, at most `subagents` jobs with the key of a sub-agent (`...:subagent:...`) run, and
    at most `cron` jobs with the key of a scheduled job (`...:cron:...`).

    The end of the block cancels running jobs and drops waiting ones; call `drain` first to let them
    end. Their runs are stored, and the next start resumes them.
    """

    def __init__(self, limit: int, subagents: int = 8, cron: int = 1) -> None:
        self._main = _Group("main", limit)
        self._subagents = _Group("subagent", subagents)
        self._cron = _Group("cron", cron)
        self._waiting: dict[str, deque[_WaitingJob]] = {}
        self._delayed: dict[str, asyncio.TimerHandle] = {}
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
        """Starts no further job."""
        self._closed = True
        self._waiting.clear()
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        for group in self._groups():
            group.ready.clear()
        self._note_quiet()

    async def drain(self, seconds: float) -> bool:
        """Starts no further job, and waits for the running ones; returns whether all have ended."""
        self.close()
        with anyio.move_on_after(seconds):
            await self._quiet.wait()
        return self._quiet.is_set()

    def resize(self, limit: int, subagents: int, cron: int) -> None:
        """Changes the limits; running jobs are not affected."""
        self._main.limit, self._subagents.limit, self._cron.limit = limit, subagents, cron
        for group in self._groups():
            self._start(group)

    def use(self) -> list[LaneUse]:
        """Returns the usage of each group."""
        return [
            LaneUse(group.name, group.used, len(group.ready), group.limit)
            for group in self._groups()
        ]

    def idle(self, key: str) -> bool:
        """Returns whether the key has no running and no waiting job."""
        return key not in self._group(key).running and key not in self._waiting

    def waiting(self, key: str) -> list[Job]:
        """Returns the key's waiting jobs in order."""
        return [waiting.job for waiting in self._waiting.get(key, ())]

    def submit(
        self,
        key: str,
        job: Job,
        *,
        index: int | None = None,
        counted: bool = True,
        delay: Callable[[], float] = at_once,
    ) -> None:
        """Adds the job to the key's lane; it starts when the lane and a slot are free.

        It is added at the end, or at position `index` of the waiting jobs. A job that is not
        `counted` waits only for its lane, not for a slot, and must be short. When its turn comes,
        `delay` returns the seconds for which the job still waits, and is called again after them.
        """
        if self._closed:
            return
        group = self._group(key)
        is_ready = key not in self._waiting and key not in group.running
        queue = self._waiting.setdefault(key, deque())
        waiting = _WaitingJob(job, counted, delay)
        index = len(queue) if index is None else index
        queue.insert(index, waiting)
        if is_ready or (index == 0 and key in self._delayed):
            self._make_ready(group, key)
        self._start(group)

    @asynccontextmanager
    async def outside(self, key: str) -> AsyncGenerator[None]:
        """Releases the slot of the key's job for the block, and waits for a slot after it.

        If the block is cancelled or raises, the job gets no slot again: it must end.
        """
        group = self._group(key)
        if key not in group.running or key in group.uncounted:
            yield
            return
        group.uncounted.add(key)
        self._start(group)
        yield
        if group.used < group.limit:
            group.uncounted.discard(key)
            return
        turn = key, anyio.Event()
        group.returning.append(turn)
        try:
            await turn[1].wait()
        except BaseException:
            if turn in group.returning:
                group.returning.remove(turn)
            raise

    def withdraw(self, key: str, job: Job) -> bool:
        """Removes a waiting job; returns False if it does not wait because it has started."""
        queue = self._waiting.get(key, deque())
        match = next((waiting_job for waiting_job in queue if waiting_job.job is job), None)
        if match is None:
            return False
        queue.remove(match)
        if not queue:
            del self._waiting[key]
            self._no_longer_ready(self._group(key), key)
        else:
            self.look_again(key)
        return True

    def look_again(self, key: str) -> None:
        """Evaluates the delay of the key's delayed job again."""
        if key in self._delayed:
            group = self._group(key)
            self._make_ready(group, key)
            self._start(group)

    def _groups(self) -> Iterator[_Group]:
        return iter((self._main, self._subagents, self._cron))

    def _group(self, key: str) -> _Group:
        if SUBAGENT in key:
            return self._subagents
        return self._cron if CRON in key else self._main

    def _note_quiet(self) -> None:
        if self._closed and not any(group.running for group in self._groups()):
            self._quiet.set()

    def _no_longer_ready(self, group: _Group, key: str) -> None:
        if key in self._delayed:
            self._delayed.pop(key).cancel()
        elif key in group.ready:
            group.ready.remove(key)

    def _make_ready(self, group: _Group, key: str) -> None:
        if key in self._delayed:
            self._delayed.pop(key).cancel()
        first = self._waiting[key][0]
        seconds = first.delay()
        if seconds > 0:
            loop = asyncio.get_running_loop()
            self._delayed[key] = loop.call_later(seconds, self.look_again, key)
        elif first.counted:
            group.ready.append(key)
        else:
            self._start_next(group, key)

    def _start(self, group: _Group) -> None:
        while group.returning and group.used < group.limit:
            key, turn = group.returning.popleft()
            group.uncounted.discard(key)
            turn.set()
        while group.ready and group.used < group.limit:
            self._start_next(group, group.ready.popleft())

    def _start_next(self, group: _Group, key: str) -> None:
        queue = self._waiting[key]
        waiting = queue.popleft()
        if not queue:
            del self._waiting[key]
        group.running.add(key)
        if not waiting.counted:
            group.uncounted.add(key)
        self._tasks.start_soon(self._run, group, key, waiting)

    async def _run(self, group: _Group, key: str, waiting: _WaitingJob) -> None:
        try:
            await waiting.job()
        except Exception:
            # A failing job must not stop the lane, in which other messages wait.
            logger.exception("a job in lane %s failed", key)
        finally:
            group.running.discard(key)
            group.uncounted.discard(key)
            if key in self._waiting:
                self._make_ready(group, key)
            self._start(group)
            self._note_quiet()
