"""The memory slot: a chain of memories; if one fails, the next one answers."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
from msgspec.structs import replace

from skerry.features.memory.wait_times import RESTS
from skerry.infra.backoff import Rest
from skerry.infra.clock import Clock
from skerry.model.errors import SkerryError
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryDocument,
    MemoryFallback,
    MemoryFile,
    MemoryProgress,
    MemoryQuestion,
    MemoryStartingError,
    MemoryStatus,
    SyncReport,
)
from skerry.model.redaction import Redaction
from skerry.ports.memory import MemoryBackend, MemoryDocuments, MemoryForgets, MemoryListing

logger = logging.getLogger(__name__)

SEARCH_SECONDS: Final = 6.0
"""Time limit of one memory before the next is asked, in seconds; QMD's own limit is 4 s."""
SHARE: Final = 0.6
"""Share of the caller's remaining time for one memory before the next is asked."""
HANGS_SECONDS: Final = 1.0
"""Seconds after which a cancelled query counts as a failure of the memory."""
LAST_SECONDS: Final = 60.0
"""Time limit of the last memory, in seconds: it may have to index before its first answer."""


@dataclass(slots=True)
class _Entry:
    """One memory of the chain."""

    backend: MemoryBackend
    pause: Rest = field(default_factory=partial(Rest, RESTS))
    reason: str = ""
    """Reason of its last failure; "" if it answered."""
    is_probed: bool = False
    """True while a query tests whether it answers again."""

    def usable(self, now: int) -> bool:
        """Returns whether to query it; after a pause only one query at a time does."""
        return not self.pause.failures or (self.pause.over(now) and not self.is_probed)


class FallbackMemoryManager:
    """A chain of memories in the order of use. A `ports.memory.MemoryBackend`.

    A memory that failed is not asked for 1, then 5, then 25 minutes; then one query tries it again,
    and if it answers it is used as before. A memory that is not ready yet is asked again at the
    next query. Source: seed 003, "Dual-Backend Architecture".
    """

    def __init__(
        self,
        backends: Sequence[MemoryBackend],
        clock: Clock,
        *,
        seconds: Callable[[], float] = lambda: SEARCH_SECONDS,
        last_seconds: float = LAST_SECONDS,
    ) -> None:
        if not backends:
            raise ValueError("a memory slot needs at least one memory")
        self._entries = [_Entry(backend) for backend in backends]
        self._clock = clock
        self._seconds = seconds
        self._last_seconds = last_seconds

    @property
    def name(self) -> str:
        """Returns the name of the memory that would answer a search now."""
        return self._serving().backend.name

    @property
    def backends(self) -> Sequence[MemoryBackend]:
        """Returns the memories in the order of use."""
        return [entry.backend for entry in self._entries]

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the answer of the first memory that gives one.

        `fallback` has the reason if that is not the first of the chain.

        Raises:
            MemoryBackendError: no memory answers.
        """
        for entry in self._entries:
            if entry is not self._entries[-1] and not entry.usable(self._clock.now_ms()):
                continue
            answer = await self._ask(entry, question)
            if answer is not None:
                return _with_fallback(answer, self._fallback(entry))
        raise MemoryBackendError(f"No memory answers. {self._reasons()}")

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Updates the index of the serving memory; with `force` that of the first.

        If the first fails, the serving memory is updated; the report names both. The other memories
        check the files at their next search.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        first, serving = self._entries[0], self._serving()
        fallback = self._fallback(serving)
        if force and serving is not first:
            try:
                report = await first.backend.sync(force=True, progress=progress)
            except SkerryError as error:
                self._failed(first, _message(error))
                fallback = self._fallback(serving)
            else:
                first.pause, first.reason = Rest(RESTS), ""
                return replace(report, backend=first.backend.name)
        report = await serving.backend.sync(force=force, progress=progress)
        return replace(report, backend=serving.backend.name, fallback=fallback)

    async def forget(self, redaction: Redaction) -> int:
        """Erases in each memory, also a paused one; returns the largest number of documents.

        Raises:
            MemoryBackendError: a memory failed.
        """
        counts = [
            await backend.forget(redaction)
            for backend in self.backends
            if isinstance(backend, MemoryForgets)
        ]
        return max(counts, default=0)

    def touch(self) -> None:
        """Records that files changed: each memory checks them before its next answer."""
        for entry in self._entries:
            entry.backend.touch()

    async def status(self) -> MemoryStatus:
        """Returns the state of the serving memory, with the reason if it is not the first."""
        entry = self._serving()
        status = await entry.backend.status()
        fallback = self._fallback(entry)
        if fallback is None:
            return status
        return replace(status, fallback=fallback, notes=(*status.notes, *_note(status.fallback)))

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns the document at a hit's path from the first memory that has it, paused or not.

        Raises:
            MemoryBackendError: it cannot be read.
        """
        for backend in self.backends:
            if isinstance(backend, MemoryDocuments):
                with anyio.fail_after(self._seconds()):
                    document = await backend.document(path)
                if document is not None:
                    return document
        return None

    async def listing(self) -> Sequence[MemoryFile]:
        """Returns the files that the serving memory has indexed; empty if it cannot list them.

        Raises:
            MemoryBackendError: its index cannot be read.
        """
        backend: object = self._serving().backend  # listing is optional
        return await backend.listing() if isinstance(backend, MemoryListing) else ()

    async def _ask(self, entry: _Entry, question: MemoryQuestion) -> MemoryAnswer | None:
        """Returns its answer; None after a failure, with the reason in the entry."""
        begun = anyio.current_time()
        seconds = self._limit(entry)
        entry.is_probed = True
        try:
            with anyio.fail_after(seconds):
                answer = await entry.backend.search(question)
        except MemoryStartingError as error:
            entry.reason = str(error)
            return None
        except TimeoutError:
            self._failed(entry, f"it did not answer within {seconds:.3g} s")
            return None
        except SkerryError as error:
            self._failed(entry, _message(error))
            return None
        except anyio.get_cancelled_exc_class():
            if anyio.current_time() - begun >= HANGS_SECONDS:
                self._failed(entry, "the caller cancelled the query before it answered")
            raise
        except Exception as error:
            # A plugin's memory may raise any exception; the next memory must still answer.
            logger.exception("memory %s failed", entry.backend.name)
            self._failed(entry, f"{type(error).__name__}: {error}")
            return None
        finally:
            entry.is_probed = False
        if entry.pause.failures:
            logger.info("memory %s answers again", entry.backend.name)
        entry.pause, entry.reason = Rest(RESTS), ""
        return answer

    def _limit(self, entry: _Entry) -> float:
        """Returns the time limit of a memory: a share of the caller's remaining time."""
        if entry is self._entries[-1]:
            return self._last_seconds
        remaining = anyio.current_effective_deadline() - anyio.current_time()
        return min(self._seconds(), max(0.0, remaining) * SHARE)

    def _failed(self, entry: _Entry, reason: str) -> None:
        entry.reason = reason
        entry.pause = entry.pause.after_failure(self._clock.now_ms())
        logger.warning("memory %s does not answer: %s", entry.backend.name, reason)

    def _serving(self) -> _Entry:
        """Returns the first memory without a failure at its last query, else the last memory."""
        return next((entry for entry in self._entries if not entry.reason), self._entries[-1])

    def _fallback(self, serving: _Entry) -> MemoryFallback | None:
        """Returns the fallback from the first memory; None if the first one serves."""
        first = self._entries[0]
        if serving is first:
            return None
        return MemoryFallback(first.backend.name, first.reason or "another query is testing it")

    def _reasons(self) -> str:
        return " ".join(
            f"{entry.backend.name}: {entry.reason}." for entry in self._entries if entry.reason
        )


def _message(error: SkerryError) -> str:
    return " ".join(filter(None, (str(error), error.remedy)))


def _with_fallback(answer: MemoryAnswer, fallback: MemoryFallback | None) -> MemoryAnswer:
    if fallback is None:
        return answer
    return replace(answer, fallback=fallback, notes=(*answer.notes, *_note(answer.fallback)))


def _note(fallback: MemoryFallback | None) -> Sequence[str]:
    """Returns the serving memory's own fallback as a note for people."""
    return () if fallback is None else (f"{fallback.origin} does not answer: {fallback.reason}",)
