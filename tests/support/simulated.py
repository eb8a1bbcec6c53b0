"""A core in a simulated event loop: threads run in it, and its process can be killed at any step.

`detangle` chooses which ready task goes on next. What the gateway does in threads of its own is
outside its model, so the store's writer and the workers run in the loop here, unchanged but for
that. A kill loses what is not committed, and the tasks of the process with it.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest

from skerry.model.errors import StoreClosedError
from skerry.store import Store, no_fault
from skerry.store.condition import Condition
from skerry.store.store import _opened
from skerry.store.writer import Writer, _Job

T = TypeVar("T")


class LoopWriter(Writer):
    """Writes in the event loop, one batch a step, until it is killed."""

    killed = False
    _scheduled = False

    def start(self) -> None:
        """Does nothing: each unit that is handed in has the loop write."""

    def join(self) -> None:
        """Writes the remaining rows, as the thread does before it ends."""
        while not self.killed and (batch := self._take()) is not None:
            self._write(batch)

    def kill(self) -> None:
        """Writes nothing more; whoever waits for a unit is refused."""
        self.killed = True
        self.close()
        while (job := self._jobs.get_nowait()) is not None:
            if job.future is not None and not job.future.done():
                job.future.set_exception(StoreClosedError("the process was killed"))

    def _put(self, job: _Job) -> None:
        super()._put(job)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        if self.killed or not self._open:
            return
        batch = self._take()
        if batch is not None:
            self._write(batch)
            self._loop.call_soon(self._answer, batch)


class Disk:
    """A database that outlives the processes of a simulation."""

    def __init__(self, template: bytes) -> None:
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._connection.deserialize(template)
        self.writer: LoopWriter | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Store]:
        """Opens the store for one process."""
        condition = Condition()
        loop = asyncio.get_running_loop()
        self.writer = writer = LoopWriter(
            self._connection, loop, lambda _: None, no_fault, condition
        )
        try:
            yield Store(writer, self._connection, Path("simulated"), condition)
        finally:
            if not writer.killed:
                writer.close()
                writer.join()

    def close(self) -> None:
        """Gives its memory back."""
        self._connection.close()


def template(folder: Path) -> bytes:
    """Returns an empty database of the present schema, as `Disk` takes it."""
    connection = _opened(folder / "template.sqlite")
    connection.execute("PRAGMA journal_mode = DELETE")
    content = connection.serialize()
    connection.close()
    return content


class SimulatedClock:
    """The simulated loop's time, as the gateway's clock."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, which begin in 2026."""
        return 1_780_000_000_000 + round(asyncio.get_running_loop().time() * 1000)


def run_workers_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets what anyio does in worker threads be done in the loop, at a step of its own."""

    async def run_sync(call: Callable[..., T], *args: Any, **_: object) -> T:
        await anyio.lowlevel.checkpoint()
        return call(*args)

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)


async def until_killed(disk: Disk, process: Coroutine[Any, Any, None], kill: asyncio.Event) -> None:
    """Lets a process live until it ends, or until it is killed."""
    loop = asyncio.get_running_loop()  # no task group: that would wait until the process has ended
    task, killing = loop.create_task(process), loop.create_task(kill.wait())
    await asyncio.wait({task, killing}, return_when=asyncio.FIRST_COMPLETED)
    killing.cancel()
    if not task.done():
        if disk.writer is not None:
            disk.writer.kill()
        task.cancel()
        await asyncio.wait({task})
    elif not task.cancelled():
        task.result()
