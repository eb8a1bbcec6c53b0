"""Lanes: one run at a time for each session, a limit over each group of them, and nobody starves.

A session that has work waits in one queue of sessions; it gets a slot for one run and then goes to
the end of that queue. So a session with a hundred messages delays another by one run, not by a
hundred.

Sub-agents are a group of their own: a run that waits for those it started must not hold the place
that they need.
"""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import anyio

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

SUBAGENT: Final = ":subagent:"

Job = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job in a lane; one that is not `counted` needs no slot, only the lane."""

    job: Job
    counted: bool


@dataclass(slots=True)
class _Group:
    """Keys that share a limit."""

    limit: int
    running: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    """Those of the running that hold no slot."""
    ready: deque[str] = field(default_factory=deque)
    """Keys with work, in the order of their turn."""


class Lanes(anyio.AsyncContextManagerMixin):
    """Runs jobs in order per key, at most `limit` at a time. Use as `async with`.

    Besides, at most `subagents` jobs run whose key is a sub-agent's (`...:subagent:...`).

    Leaving the block cancels the jobs that still run and drops those that wait; `drain` first to
    let them end. What they stand for is in the store, and the next start takes it up.
    """

    def __init__(self, limit: int, subagents: int = 8) -> None:
        self._main = _Group(limit)
        self._subagents = _Group(subagents)
        self._waiting: dict[str, deque[_Waiting]] = {}
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
        self._main.ready.clear()
        self._subagents.ready.clear()
        self._note_quiet()

    async def drain(self, seconds: float) -> bool:
        """Start nothing more and wait for what runs; return whether all of it ended in time."""
        self.close()
        with anyio.move_on_after(seconds):
            await self._quiet.wait()
        return self._quiet.is_set()

    def idle(self, key: str) -> bool:
        """Return whether nothing of the key runs or waits."""
        return key not in self._group(key).running and key not in self._waiting

    def submit(self, key: str, job: Job, *, first: bool = False, counted: bool = True) -> None:
        """Put the job into the key's lane, at the end or `first`; it starts where there is room.

        One that is not `counted` waits for its lane only, however many others run: it must be
        short.
        """
        if self._closed:
            return
        group = self._group(key)
        is_ready = key not in self._waiting and key not in group.running
        queue = self._waiting.setdefault(key, deque())
        waiting = _Waiting(job, counted)
        if first:
            queue.appendleft(waiting)
        else:
            queue.append(waiting)
        if is_ready:
            self._make_ready(group, key)
        self._start(group)

    def _group(self, key: str) -> _Group:
        return self._subagents if SUBAGENT in key else self._main

    def _note_quiet(self) -> None:
        if self._closed and not self._main.running and not self._subagents.running:
            self._quiet.set()

    def _make_ready(self, group: _Group, key: str) -> None:
        if self._waiting[key][0].counted:
            group.ready.append(key)
        else:
            self._start_next(group, key)

    def _start(self, group: _Group) -> None:
        while group.ready and len(group.running) - len(group.uncounted) < group.limit:
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

    async def _run(self, group: _Group, key: str, waiting: _Waiting) -> None:
        try:
            await waiting.job()
        except Exception:
            # One job's failure must not stop the lane: the others in it are someone's messages.
            logger.exception("a job in lane %s failed", key)
        finally:
            group.running.discard(key)
            group.uncounted.discard(key)
            if key in self._waiting:
                self._make_ready(group, key)
            self._start(group)
            self._note_quiet()
