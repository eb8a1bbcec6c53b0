"""The built-in memory: an index of our own, brought up to date before it answers."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from skerry.memory.database import DamagedError
from skerry.memory.filling import StoppedError
from skerry.memory.index import INDEXED_AT, Index, no_report
from skerry.memory.searching import search
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryHit,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemoryStatus,
    SyncReport,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
NAME: Final = "builtin"


class BuiltinMemory:
    """The memory of one agent over its own index. A `ports.memory.MemoryBackend`.

    Nothing is opened before the first search or sync. `close` it at the end.
    """

    def __init__(self, agent: AgentId, index: Index) -> None:
        self._agent = agent
        self._index = index
        self._dirty = True
        self._syncing = anyio.Lock()

    @property
    def name(self) -> str:
        """Return `builtin`."""
        return NAME

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Return the passages that answer best, of the files as they are now.

        Raises:
            MemoryBackendError: the index can neither be read nor made anew.
        """
        notes: list[str] = []
        try:
            await self.sync()
        except MemoryBackendError as error:
            notes.append(str(error))  # what is indexed is still found
        hits = await self._mended(partial(self._search, question))
        return MemoryAnswer(
            hits=hits,
            backend=NAME,
            provider="none",
            model="",
            mode=MemoryMode.TEXT,
            notes=(*self._index.notes, *notes),
        )

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Bring the index up to what the files say; `force` builds it anew beside the old one.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        async with self._syncing:
            self._dirty = False
            try:
                return await _thread(
                    partial(self._index.sync, force=force, report=progress or no_report)
                )
            except StoppedError as error:
                raise MemoryBackendError("The memory is closed.") from error
            except BaseException:
                self._dirty = True
                raise

    def touch(self) -> None:
        """Note that files changed: the next search looks at them first."""
        self._dirty = True

    async def status(self) -> MemoryStatus:
        """Return its state; it never fails."""
        try:
            return await self._mended(self._status)
        except MemoryBackendError as error:
            return self._state((), None, (str(error),))

    def close(self) -> None:
        """Let go of the index. Blocks until a job that runs has noticed."""
        self._index.close()

    async def _mended(self, work: Callable[[], T]) -> T:
        """Run the work in a thread; where the index is damaged, make it anew and run it again."""
        try:
            return await _thread(work)
        except DamagedError:
            await self.sync()
        try:
            return await _thread(work)
        except DamagedError as error:
            raise MemoryBackendError(f"The memory's index is damaged: {error}.") from error

    def _search(self, question: MemoryQuestion) -> list[MemoryHit]:
        with self._index.reading() as (tables, collection):
            return search(tables, collection, question)

    def _status(self) -> MemoryStatus:
        with self._index.tables() as tables:
            at = tables.meta(INDEXED_AT)
            failed = [f"{path}: {reason}" for path, reason in tables.failed()]
            return self._state(tables.counts(), None if at is None else int(at), failed)

    def _state(
        self, sources: Sequence[tuple[str, int, int]], at: int | None, notes: Sequence[str]
    ) -> MemoryStatus:
        return MemoryStatus(
            agent=self._agent,
            backend=NAME,
            files=sum(files for _, files, _ in sources),
            chunks=sum(chunks for _, _, chunks in sources),
            dirty=self._dirty,
            indexed_at=at,
            provider="none",
            model="",
            mode=MemoryMode.TEXT,
            vectors=0,
            sources=tuple(sources),
            database=str(self._index.database.path),
            notes=(*self._index.notes, *notes),
        )


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
