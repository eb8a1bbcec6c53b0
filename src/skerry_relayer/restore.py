"""Restores index rows from blobs."""

from dataclasses import dataclass

from skerry_recall.embed import Kind
from skerry_recall.numbers import np
from skerry_relayer import index
from skerry_relayer.blobs import Blob, BlobError, Header, header_of, unpacked
from skerry_relayer.database import Unit
from skerry_relayer.errors import DownError, NoCertificateError
from skerry_relayer.jobs import RelayerParts, memory_of
from skerry_relayer.ports import Caller, Restored
from skerry_relayer.recall import MANUAL
from skerry_relayer.tags import tag_of
from skerry_relayer.vault import OpenedBlob, Vault
from skerry_relayer.vector_search import VectorScope

_BATCH = 25


@dataclass(frozen=True, slots=True)
class _Candidate:
    blob_id: str
    header: Header


class Restore:
    """Restores memories with their times, importance and vectors."""

    def __init__(self, parts: RelayerParts, vault: Vault) -> None:
        self._parts = parts
        self._vault = vault

    async def run(self, caller: Caller, namespace: str, limit: int) -> Restored:
        """Restores the newest `limit` blobs of a namespace that have no row.

        Raises:
            NoCertificateError: the request has no certificate.
        """
        if caller.certificate is None:
            raise NoCertificateError("Opening texts requires a certificate.")
        try:
            heads = await self._parts.blobs.heads(caller.owner)
            candidates = list(_candidates(heads, caller.owner, namespace))
            missing = await self._missing(caller.owner, candidates)
            chosen = missing[:limit]
            restored = failed = 0
            for begin in range(0, len(chosen), _BATCH):
                restored_count, failed_count = await self._some(
                    caller, chosen[begin : begin + _BATCH]
                )
                restored, failed = restored + restored_count, failed + failed_count
        except OSError as error:
            raise DownError(f"The blobs cannot be read: {error.strerror}.") from error
        skipped = len(candidates) - len(missing) + len(chosen) - restored - failed
        return Restored(restored, skipped, len(candidates), failed, len(missing) > len(chosen))

    async def _missing(self, owner: str, candidates: list[_Candidate]) -> list[_Candidate]:
        """Returns the blobs without a row, newest first, except those to be deleted."""

        def look(unit: Unit) -> set[str]:
            ids = [candidate.blob_id for candidate in candidates]
            rows = {memory.blob_id for memory in index.by_blobs(unit, owner, ids)}
            doomed = {blob_id for blob_id in ids if index.is_doomed(unit, owner, blob_id)}
            return rows | doomed | index.being_written(unit, owner)

        present = await self._parts.database.read(look)
        missing = [candidate for candidate in candidates if candidate.blob_id not in present]
        return sorted(
            missing, key=lambda candidate: (-candidate.header.created_at, candidate.blob_id)
        )

    async def _some(self, caller: Caller, some: list[_Candidate]) -> tuple[int, int]:
        """Restores candidates; returns the numbers of restored and of failed candidates."""
        if caller.certificate is None:
            raise NoCertificateError("Opening texts requires a certificate.")
        files = await self._parts.blobs.get(caller.owner, [candidate.blob_id for candidate in some])
        blobs = [
            _blob(file, candidate.blob_id) for file, candidate in zip(files, some, strict=True)
        ]
        opened = await self._vault.open_blobs(caller.certificate, caller.owner, blobs)
        keys = await self._parts.keys.owner_keys(caller.owner)
        restored = 0
        for blob, file in zip(opened, files, strict=True):
            if blob is not None and file is not None:
                restored += await self._add(blob, len(file), keys.tag_key)
        return restored, sum(blob is None for blob in opened)

    async def _add(self, opened: OpenedBlob, size: int, tag_key: bytes) -> bool:
        parts, header, content = self._parts, opened.blob.header, opened.content
        memory = memory_of(opened.blob, size, parts.clock())
        vector, space = np.frombuffer(content.vector, np.float32), content.space
        tag = None
        if not header.manual:
            tag = tag_of(tag_key, header.namespace, content.text)
            if space != parts.vectors.space:  # a vector of another model cannot be compared
                (vector,) = await parts.vectors.of([content.text], Kind.PASSAGE)
                space = parts.vectors.space

        def add(unit: Unit) -> bool:
            if index.by_ids(unit, memory.owner, [memory.id]):
                return False
            if index.is_doomed(unit, memory.owner, memory.blob_id):
                return False
            return index.add(unit, memory, tag, space, parts.nearest.bound(vector))

        is_new = await parts.database.write(add)
        parts.reach("restore.added")
        if is_new:
            scope = VectorScope(memory.owner, memory.namespace, space)
            parts.nearest.added(scope, memory.id, vector)
        return is_new


def _candidates(heads: list[tuple[str, bytes]], owner: str, namespace: str) -> list[_Candidate]:
    candidates = []
    for blob_id, head in heads:
        try:
            header = header_of(head)
        except BlobError:
            continue
        if (header.owner, header.namespace) == (owner, namespace):
            candidates.append(_Candidate(blob_id, header))
    return candidates


def _blob(file: bytes | None, blob_id: str) -> Blob | None:
    try:
        return None if file is None else unpacked(file, blob_id)
    except BlobError:
        return None


def manual_space(space: str) -> str:
    """Returns the space of a memory whose text the client encrypted."""
    return MANUAL + space
