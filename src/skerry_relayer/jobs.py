"""Runs jobs: each accepted text is stored once and becomes searchable, or its job fails."""

import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Self

import anyio

from skerry_recall.embed import Kind
from skerry_recall.numbers import Floats
from skerry_relayer import index, job_rows
from skerry_relayer.blobs import Blob, BlobStore, Header, packed
from skerry_relayer.database import Database, Unit
from skerry_relayer.embedding import TextVectors
from skerry_relayer.envelope import (
    Binding,
    EnvelopeError,
    SealKey,
    new_key,
    seal,
    unseal,
    wrap,
)
from skerry_relayer.errors import DownError, RefusedError
from skerry_relayer.index import Memory
from skerry_relayer.job_rows import Hold, Waiting
from skerry_relayer.keys.client import KeyClient
from skerry_relayer.keys.framing import Wrapped
from skerry_relayer.keys.registry import now_ms
from skerry_relayer.vault import Content, closed
from skerry_relayer.vector_search import Nearest, VectorScope

logger = logging.getLogger(__name__)
HOLD_MS: Final = 60_000
"""Milliseconds for which a node holds a job; it renews the hold after half of this time."""
KEEP_MS: Final = 7 * 86_400_000
"""Milliseconds for which the row of a finished job is kept."""
UNWRITTEN_MS: Final = 600_000
"""Milliseconds after which the writer of a blob without a row counts as dead."""
_WORKERS: Final = 4
_BATCH: Final = 100
"""Jobs that are read from the database at once."""
_TEXT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of accepted texts in memory; further texts are decrypted from their rows."""
_MAX_WAIT: Final = 30.0
_SWEEP_SECONDS: Final = 20.0


class _GoneError(Exception):
    """Error: the job was deleted meanwhile."""


@dataclass(frozen=True, slots=True)
class RelayerParts:
    """Parts of the relayer that a job needs."""

    database: Database
    keys: KeyClient
    blobs: BlobStore
    vectors: TextVectors
    nearest: Nearest
    clock: Callable[[], int] = now_ms
    reach: Callable[[str], None] = lambda _: None
    """Called at named points at which tests kill the process."""


@dataclass(slots=True)
class _Work:
    """A job in this process; `text` is None if the text is only in the row."""

    job: Waiting
    text: str | None
    tries: int = 0
    refusal: str = ""
    """Reason why the text can never be stored, for the row of the job; empty for none."""
    ended: anyio.Event = field(default_factory=anyio.Event)


def sealed_job(template: Waiting, text: str, queue: SealKey) -> Waiting:
    """Returns the job with its text sealed to the queue key, bound to owner, namespace and id."""
    key, binding = new_key(), _binding(template)
    sealed = seal(text.encode("utf-8", "surrogatepass"), key, binding)
    wrapped = wrap(key, queue.public, binding)
    return replace(template, generation=queue.generation, wrapped=wrapped, sealed=sealed)


def _binding(job: Waiting) -> Binding:
    return Binding(job.owner, job.account_id, job.namespace, job.id, "queue")


class Runner(anyio.AsyncContextManagerMixin):
    """Runs the jobs of all accepted texts. Use as `async with Runner(parts) as runner`.

    Unfinished jobs remain in the database for the next start.
    """

    def __init__(self, parts: RelayerParts) -> None:
        self._parts = parts
        self.node = uuid.uuid4().hex
        self._ready: deque[_Work] = deque()
        self._works: dict[str, _Work] = {}
        self._news = anyio.Event()
        self._bytes = 0
        self.trouble = ""
        """Reason why jobs wait; empty if no job waits."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as tasks:
            for _ in range(_WORKERS):
                tasks.start_soon(self._work)
            tasks.start_soon(self._sweep_and_claim)
            try:
                yield self
            finally:
                tasks.cancel_scope.cancel()

    def hold(self) -> Hold:
        """Returns the hold of a job that is accepted now."""
        return Hold(self.node, self._parts.clock() + HOLD_MS)

    def submit(self, job: Waiting, text: str) -> None:
        """Queues a job whose row is durable and held by this node."""
        fits = self._bytes + len(text) <= _TEXT_BYTES
        self._bytes += len(text) if fits else 0
        self._take(_Work(job, text if fits else None))

    def _take(self, work: _Work) -> None:
        if work.job.id not in self._works:
            self._works[work.job.id] = work
            self._ready.append(work)
            self._news.set()

    async def ended(self, job_ids: Sequence[str]) -> None:
        """Waits until this process has stopped running these jobs, which are deleted."""
        for job_id in job_ids:
            if (work := self._works.get(job_id)) is not None:
                await work.ended.wait()

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._news = anyio.Event()
                await self._news.wait()
            work = self._ready.popleft()
            try:
                await self._run(work)
            except (DownError, OSError) as error:
                self._wait(work, str(error))
                await anyio.sleep(min(2.0**work.tries / 10, _MAX_WAIT))
                self._ready.append(work)
                self._news.set()
                continue
            self._end(work)

    async def _run(self, work: _Work) -> None:
        """Stores the text, or marks its job as failed.

        Raises:
            DownError, OSError: a part does not answer; the job can be retried.
        """
        if not work.refusal:
            try:
                await self._store(work)
            except (DownError, OSError):
                raise
            except RefusedError as error:
                work.refusal = str(error)
            except Exception:
                logger.exception("job %s failed", work.job.id)
                work.refusal = "The relayer failed to store this text; its log has the reason."
        if work.refusal:
            now = self._parts.clock()
            await self._parts.database.write(
                lambda unit: job_rows.fail(unit, work.job.id, work.refusal, now)
            )
            self.trouble = ""

    def _wait(self, work: _Work, reason: str) -> None:
        work.tries += 1
        if self.trouble != reason:
            logger.warning("jobs wait: %s", reason)
        self.trouble = reason

    def _end(self, work: _Work) -> None:
        del self._works[work.job.id]
        self._bytes -= len(work.text or "")
        work.ended.set()

    async def _store(self, work: _Work) -> None:
        """Runs all steps of one job.

        Raises:
            DownError, OSError: a part does not answer; the job can be retried.
            RefusedError: the text can never be stored.
        """
        job, parts = work.job, self._parts
        if await self._is_known(job):
            return
        text = work.text if work.text is not None else await self._reopened(job)
        (vector,) = await parts.vectors.of([text], Kind.PASSAGE)
        parts.reach("job.embedded")
        blob = await self._closed(job, text, vector)
        data, now = packed(blob), parts.clock()

        def note(unit: Unit) -> bool:
            if job.blob_id is not None:  # blob of an earlier process or attempt
                index.doom(unit, job.owner, job.blob_id)
            return job_rows.will_write(unit, job.id, blob.id, now)

        if not await parts.database.write(note):
            return
        work.job = job = replace(job, blob_id=blob.id)
        parts.reach("job.noted")
        await parts.blobs.put(job.owner, blob.id, data)
        parts.reach("job.written")
        await self._add(job, blob, len(data), vector)
        self.trouble = ""

    async def _is_known(self, job: Waiting) -> bool:
        """Finishes a job whose text is stored already; returns False if the text is new."""
        now = self._parts.clock()

        def look(unit: Unit) -> bool:
            stored = index.by_tag(unit, job.owner, job.namespace, job.tag)
            if stored is None:
                return False
            if job.blob_id is not None and job.blob_id != stored.blob_id:
                index.doom(unit, job.owner, job.blob_id)
            job_rows.finish(unit, job.id, stored.id, stored.blob_id, now)
            return True

        exists = await self._parts.database.read(
            lambda unit: index.by_tag(unit, job.owner, job.namespace, job.tag)
        )
        return exists is not None and await self._parts.database.write(look)

    async def _reopened(self, job: Waiting) -> str:
        wrapped = Wrapped(job.account_id, job.namespace, job.id, job.generation, job.wrapped)
        (key,) = await self._parts.keys.open_waiting(job.owner, [wrapped])
        if key is None:
            raise RefusedError("The key server refuses to decrypt the accepted text.")
        try:
            return unseal(job.sealed, key, _binding(job)).decode("utf-8", "surrogatepass")
        except EnvelopeError as error:
            raise RefusedError("The accepted text cannot be decrypted any more.") from error

    async def _closed(self, job: Waiting, text: str, vector: Floats) -> Blob:
        header = Header(
            job.id,
            job.owner,
            job.account_id,
            job.namespace,
            job.created_at,
            job.importance,
            job.agent_id,
        )
        content = Content(text, self._parts.vectors.space, vector.tobytes())
        keys = await self._parts.keys.owner_keys(job.owner)
        return closed(header, content, keys.seal)

    async def _add(self, job: Waiting, blob: Blob, size: int, vector: Floats) -> None:
        parts, now, space = self._parts, self._parts.clock(), self._parts.vectors.space
        memory = memory_of(blob, size, now)

        def add(unit: Unit) -> bool:
            is_new = index.add(unit, memory, job.tag, space, parts.nearest.bound(vector))
            stored = memory if is_new else index.by_tag(unit, job.owner, job.namespace, job.tag)
            if stored is None:
                raise DownError("The row of the same text was deleted meanwhile.")
            if not is_new:
                index.doom(unit, job.owner, blob.id)
            if not job_rows.finish(unit, job.id, stored.id, stored.blob_id, now):
                raise _GoneError
            return is_new

        try:
            is_new = await parts.database.write(add)
        except _GoneError:
            await parts.database.write(lambda unit: index.doom(unit, job.owner, blob.id))
            return
        parts.reach("job.done")
        if is_new:
            scope = VectorScope(memory.owner, memory.namespace, space)
            parts.nearest.added(scope, memory.id, vector)

    async def _sweep_and_claim(self) -> None:
        """Claims free jobs, deletes scheduled blobs and clears old rows, until cancelled."""
        while True:
            try:
                await self._claim()
                await self._parts.database.write(self._clear)
                await self.sweep()
            except (DownError, OSError) as error:
                logger.warning("jobs and blobs cannot be checked: %s", error)
            await anyio.sleep(_SWEEP_SECONDS)

    async def _claim(self) -> None:
        now, hold = self._parts.clock(), self.hold()

        def claim(unit: Unit) -> list[Waiting]:
            job_rows.hold_longer(unit, hold)
            return job_rows.claim(unit, hold, now, _BATCH)

        for job in await self._parts.database.write(claim):
            self._take(_Work(job, None))

    def _clear(self, unit: Unit) -> None:
        """Deletes rows of old jobs, and schedules the deletion of blobs whose writer died."""
        job_rows.clear_before(unit, self._parts.clock() - KEEP_MS)
        index.doom_unwritten(unit, self._parts.clock() - UNWRITTEN_MS)

    async def sweep(self) -> None:
        """Deletes the blobs that must be deleted."""
        parts = self._parts
        while blobs := await parts.database.read(lambda unit: index.doomed(unit, _BATCH)):
            for owner in {owner for owner, _ in blobs}:
                await parts.blobs.delete(
                    owner, [id_ for blob_owner, id_ in blobs if blob_owner == owner]
                )
            parts.reach("sweep.deleted")
            await parts.database.write(partial(index.deleted, blobs=blobs))


def memory_of(blob: Blob, size: int, now: int) -> Memory:
    """Returns the row of a blob whose file has `size` bytes."""
    header = blob.header
    return Memory(
        header.id,
        header.owner,
        header.account,
        header.namespace,
        blob.id,
        header.created_at,
        now,
        size,
        header.importance,
        header.agent_id,
        header.package_id,
    )
