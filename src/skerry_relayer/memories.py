"""Memory of all owners: implements `ports.MemoryService`."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Self

import anyio

from skerry_recall.embed import Kind
from skerry_relayer import index, job_rows
from skerry_relayer.blobs import BlobError, Header, packed, unpacked
from skerry_relayer.database import Unit
from skerry_relayer.embedding import padded, placed
from skerry_relayer.envelope import SealKey
from skerry_relayer.errors import DownError, KeyReusedError, QuotaError
from skerry_relayer.index import Memory
from skerry_relayer.job_rows import Hold, Waiting
from skerry_relayer.jobs import RelayerParts, Runner, memory_of, sealed_job
from skerry_relayer.ports import (
    After,
    Caller,
    Hit,
    Item,
    Job,
    MemoryRow,
    NamespaceRow,
    Query,
    Recalled,
    Restored,
    Stats,
    Stored,
)
from skerry_relayer.recall import MANUAL, Recall
from skerry_relayer.restore import Restore
from skerry_relayer.tags import fingerprint_of, tag_of
from skerry_relayer.vault import Content, Vault, closed
from skerry_relayer.vector_search import VectorScope

QUOTA_BYTES: Final = 1024**3
"""Maximum total size of the blobs of one owner, in bytes; 0 for no limit."""


class Memories(anyio.AsyncContextManagerMixin):
    """Stores and finds memories. Use as `async with Memories(parts) as memories`."""

    def __init__(self, parts: RelayerParts, *, quota_bytes: int = QUOTA_BYTES) -> None:
        self._parts = parts
        self._quota_bytes = quota_bytes
        self._runner = Runner(parts)
        vault = Vault(parts.keys, parts.blobs)
        self._recall = Recall(parts, vault)
        self._restore = Restore(parts, vault)
        self._queue: SealKey | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._runner:
            yield self

    async def ready(self) -> bool:
        """Returns whether accepted texts currently become searchable."""
        return not self._runner.trouble

    async def remember(self, caller: Caller, items: Sequence[Item]) -> list[Job]:
        """Accepts texts; returns once they are durable."""
        keys = await self._parts.keys.owner_keys(caller.owner)
        queue = await self._queue_key()
        prints = [fingerprint_of(keys.tag_key, item.namespace, item.text) for item in items]
        accepted = [
            _Accepted(self._waiting(caller, item, keys.tag_key, queue), item, print_)
            for item, print_ in zip(items, prints, strict=True)
        ]
        size = sum(len(item.text.encode("utf-8", "surrogatepass")) for item in items)

        hold = self._runner.hold()

        def accept(unit: Unit) -> list[tuple[Job, Waiting | None]]:
            self._check_quota(unit, caller.owner, size)
            return [submission.insert(unit, queue, hold) for submission in accepted]

        results = await self._parts.database.write(accept)
        self._parts.reach("remember.accepted")
        for (_, waiting), submission in zip(results, accepted, strict=True):
            if waiting is not None:
                self._runner.submit(waiting, submission.item.text)
        return [job for job, _ in results]

    async def jobs(self, caller: Caller, ids: Sequence[str]) -> list[Job | None]:
        """Returns the jobs of the caller's owner, None for any other id."""
        return await self._parts.database.read(
            lambda unit: [job_rows.of_owner(unit, caller.owner, id_) for id_ in ids]
        )

    async def remember_manual(
        self, caller: Caller, encrypted: bytes, vector: Sequence[float], namespace: str
    ) -> Stored:
        """Stores a blob that the client encrypted; returns when it is searchable."""
        parts = self._parts
        row, space = placed(vector, parts.vectors.dims, parts.vectors.space)
        space, now = MANUAL + space, parts.clock()
        header = Header(
            str(uuid.uuid4()),
            caller.owner,
            caller.account_id,
            namespace,
            now,
            agent_id=_agent(caller),
        )
        keys = await parts.keys.owner_keys(caller.owner)
        blob = closed(header, Content("", space, row.tobytes()), keys.seal, encrypted)
        data = packed(blob)
        memory = memory_of(blob, len(data), now)

        def note(unit: Unit) -> None:
            self._check_quota(unit, caller.owner, len(data))
            index.writing(unit, memory.owner, blob.id, now)

        await parts.database.write(note)
        parts.reach("manual.noted")
        try:
            await parts.blobs.put(caller.owner, blob.id, data)
        except OSError as error:
            raise DownError(f"The blob cannot be stored: {error.strerror}.") from error
        parts.reach("manual.written")

        def add(unit: Unit) -> None:
            if not index.remove_note(unit, memory.owner, blob.id):
                raise DownError("The blob was written too slowly; send it again.")
            index.add(unit, memory, None, space, parts.nearest.bound(row))

        await parts.database.write(add)
        parts.nearest.added(VectorScope(caller.owner, namespace, space), memory.id, row)
        return Stored(memory.id, blob.id)

    async def recall(self, caller: Caller, query: Query) -> Recalled:
        """Finds memories by text. Raises `NoCertificateError` without a certificate."""
        return await self._recall.by_text(caller, query)

    async def recall_manual(self, caller: Caller, query: Query) -> Recalled:
        """Finds memories by vector; decrypts no text."""
        return await self._recall.by_vector(caller, query)

    async def embed(self, text: str) -> tuple[float, ...]:
        """Returns the calibrated vector of a text, padded to `WIDTH`."""
        (row,) = await self._parts.vectors.of([text], Kind.PASSAGE)
        return padded(row)

    async def forget_namespace(self, caller: Caller, namespace: str) -> int:
        """Deletes the memories of a namespace with their blobs and waiting jobs."""
        now = self._parts.clock()

        def forget(unit: Unit) -> tuple[list[Memory], list[tuple[str, str | None]]]:
            memories = index.of_namespace(unit, caller.owner, namespace)
            index.forget(unit, memories, now)
            return memories, _forgotten(
                unit, caller, job_rows.forget(unit, caller.owner, namespace)
            )

        memories, jobs = await self._parts.database.write(forget)
        return await self._removed(caller, memories, jobs)

    async def forget(self, caller: Caller, ids: Sequence[str]) -> int:
        """Deletes memories by memory id or blob id, with their blobs and waiting jobs."""
        now, unique = self._parts.clock(), list(dict.fromkeys(ids))

        def forget(unit: Unit) -> tuple[list[Memory], list[tuple[str, str | None]]]:
            memories = index.by_ids(unit, caller.owner, unique) + index.by_blobs(
                unit, caller.owner, unique
            )
            memories = [
                memory
                for memory in {memory.id: memory for memory in memories}.values()
                if caller.namespaces is None or memory.namespace in caller.namespaces
            ]
            index.forget(unit, memories, now)
            jobs = job_rows.forget_ids(unit, caller.owner, unique, caller.namespaces)
            return memories, _forgotten(unit, caller, jobs)

        memories, jobs = await self._parts.database.write(forget)
        return await self._removed(caller, memories, jobs)

    async def _removed(
        self, caller: Caller, memories: list[Memory], jobs: list[tuple[str, str | None]]
    ) -> int:
        for namespace in {memory.namespace for memory in memories}:
            removed = [memory.id for memory in memories if memory.namespace == namespace]
            self._parts.nearest.removed(caller.owner, namespace, removed)
        self._parts.reach("forget.committed")
        await self._runner.ended([job_id for job_id, _ in jobs])
        try:
            await self._runner.sweep()
        except OSError as error:
            raise DownError(f"The blobs are not deleted yet: {error.strerror}.") from error
        return len(memories) + len(jobs)

    async def read(self, caller: Caller, ids: Sequence[str]) -> list[Hit]:
        """Returns decrypted memories by id."""
        return await self._recall.by_ids(caller, ids)

    async def stats(self, caller: Caller, namespace: str) -> Stats:
        """Returns the size of a namespace."""
        tally = await self._parts.database.read(
            lambda unit: index.tally(unit, caller.owner, namespace)
        )
        return Stats(tally.memories, tally.bytes)

    async def restore(self, caller: Caller, namespace: str, limit: int) -> Restored:
        """Restores index rows from the newest blobs. Requires a certificate."""
        return await self._restore.run(caller, namespace, limit)

    async def namespaces(
        self, caller: Caller, after: After | None, limit: int
    ) -> list[NamespaceRow]:
        """Lists the caller's namespaces after `after`, in the order (`updated_at`, name)."""
        tallies = await self._parts.database.read(
            lambda unit: index.tallies(unit, caller.owner, caller.namespaces, after, limit)
        )
        return [
            NamespaceRow(row.namespace, row.namespace, row.memories, row.bytes, _at(row.updated_at))
            for row in tallies
        ]

    async def memories(self, caller: Caller, after: After | None, limit: int) -> list[MemoryRow]:
        """Lists metadata of the memories after `after`, in the order (`updated_at`, id)."""
        rows = await self._parts.database.read(
            lambda unit: index.listed(unit, caller.owner, caller.namespaces, after, limit)
        )
        return [
            MemoryRow(
                row.id,
                row.namespace,
                row.blob_id,
                _at(row.created_at),
                _at(row.updated_at),
                row.size,
                row.agent_id,
                row.package_id,
            )
            for row in rows
        ]

    async def blob(self, blob_id: str) -> bytes | None:
        """Returns the stored ciphertext of a blob, or None."""
        owner = await self._parts.database.read(lambda unit: index.with_blob(unit, blob_id))
        if owner is None:
            return None
        try:
            (data,) = await self._parts.blobs.get(owner, [blob_id])
            blob = None if data is None else unpacked(data, blob_id)
        except BlobError:
            return None
        except OSError as error:
            raise DownError(f"The blobs cannot be read: {error.strerror}.") from error
        if blob is None:
            return None
        return blob.body if blob.header.manual else data

    async def _queue_key(self) -> SealKey:
        if self._queue is None:
            self._queue = await self._parts.keys.queue_key()
        return self._queue

    def _waiting(self, caller: Caller, item: Item, tag_key: bytes, queue: SealKey) -> Waiting:
        template = Waiting(
            str(uuid.uuid4()),
            caller.owner,
            caller.account_id,
            item.namespace,
            None,
            item.importance,
            _agent(caller),
            tag_of(tag_key, item.namespace, item.text),
            queue.generation,
            b"",
            b"",
            self._parts.clock(),
        )
        return sealed_job(template, item.text, queue)

    def _check_quota(self, unit: Unit, owner: str, new_bytes: int) -> None:
        used = index.used_bytes(unit, owner)
        if self._quota_bytes > 0 and used + new_bytes > self._quota_bytes:
            raise QuotaError(used, self._quota_bytes)


class _Accepted:
    """An accepted text, to be inserted as a job."""

    def __init__(self, waiting: Waiting, item: Item, fingerprint: str) -> None:
        self.waiting = waiting
        self.item = item
        self.fingerprint = fingerprint

    def insert(self, unit: Unit, queue: SealKey, hold: Hold) -> tuple[Job, Waiting | None]:
        """Inserts or restarts the job; returns it, and its waiting text unless repeated."""
        job, key = self.waiting, self.item.idempotency_key
        previous = None if key is None else job_rows.by_key(unit, job.owner, key)
        if previous is None:
            job_rows.insert(unit, job, key, self.fingerprint, hold)
            return Job(job.id, "running", job.owner, job.namespace), job
        stored, fingerprint = previous
        if fingerprint != self.fingerprint:
            raise KeyReusedError
        if stored.status != "failed":
            return stored, None
        resealed_job = sealed_job(replace(job, id=stored.id), self.item.text, queue)
        job_rows.restart(unit, resealed_job, hold)
        return Job(stored.id, "pending", job.owner, job.namespace), resealed_job


def _forgotten(
    unit: Unit, caller: Caller, rows: list[tuple[str, str | None]]
) -> list[tuple[str, str | None]]:
    for _, blob_id in rows:
        if blob_id is not None:
            index.doom(unit, caller.owner, blob_id)
    return rows


def _agent(caller: Caller) -> str:
    return caller.label or caller.public_key[:16]


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
