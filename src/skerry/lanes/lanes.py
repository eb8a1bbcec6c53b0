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


@dataclass(slots=True)
class _Group:
    """Keys that share a limit."""

    limit: int
    running: set[str] = field(default_factory=set)
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
        self._waiting: dict[str, deque[Job]] = {}
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

    def submit(self, key: str, job: Job, *, first: bool = False) -> None:
        """Put the job into the key's lane, at the end or `first`; it starts where there is room."""
        if self._closed:
            return
        group = self._group(key)
        if key not in self._waiting:
            self._waiting[key] = deque()
            if key not in group.running:
                group.ready.append(key)
        if first:
            self._waiting[key].appendleft(job)
        else:
            self._waiting[key].append(job)
        self._start(group)

    def _group(self, key: str) -> _Group:
        return self._subagents if SUBAGENT in key else self._main

    def _note_quiet(self) -> None:
        if self._closed and not self._main.running and not self._subagents.running:
            self._quiet.set()

    def _start(self, group: _Group) -> None:
        while group.ready and len(group.running) < group.limit:
            key = group.ready.popleft()
            queue = self._waiting[key]
            job = queue.popleft()
            if not queue:
                del self._waiting[key]
            group.running.add(key)
            self._tasks.start_soon(self._run, group, key, job)

    async def _run(self, group: _Group, key: str, job: Job) -> None:
        try:
            await job()
        except Exception:
            # One job's failure must not stop the lane: the others in it are someone's messages.
            logger.exception("a job in lane %s failed", key)
        finally:
            group.running.discard(key)
            if key in self._waiting:
                group.ready.append(key)
            self._start(group)
            self._note_quiet()
