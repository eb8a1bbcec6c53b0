"""Finds memories: nearest vectors, the order of hits, and their texts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from skerry_recall.embed import Kind
from skerry_recall.numbers import Floats
from skerry_relayer import index
from skerry_relayer.embedding import placed
from skerry_relayer.errors import DownError, NoCertificateError
from skerry_relayer.index import Memory
from skerry_relayer.jobs import RelayerParts
from skerry_relayer.ports import Caller, Hit, Query, Recalled
from skerry_relayer.vault import OpenedBlob, Vault
from skerry_relayer.vector_search import VectorScope

MANUAL: Final = "manual:"
"""Prefix of the space of memories whose texts only the client can decrypt."""
_CANDIDATES_PER_HIT: Final = 5
_MIN_CANDIDATES: Final = 50
_DAY_MS: Final = 86_400_000


class Recall:
    """Searches the memory."""

    def __init__(self, parts: RelayerParts, vault: Vault) -> None:
        self._parts = parts
        self._vault = vault

    async def by_text(self, caller: Caller, query: Query) -> Recalled:
        """Returns the memories nearest to the text of a query, with their texts.

        Raises:
            NoCertificateError: the request has no certificate.
        """
        if caller.certificate is None:
            raise NoCertificateError("Opening texts requires a certificate.")
        (vector,) = await self._parts.vectors.of([query.text], Kind.QUERY)
        scope = VectorScope(caller.owner, query.namespace, self._parts.vectors.space)
        hits = await self._ranked([scope], vector, query)
        opened = await self._opened(caller, [memory for memory, _ in hits])
        results = [
            _with_text(hit, blob.content.text)
            for (_, hit), blob in zip(hits, opened, strict=True)
            if blob is not None
        ]
        return Recalled(tuple(results), len(hits) - len(results))

    async def by_vector(self, caller: Caller, query: Query) -> Recalled:
        """Returns the memories nearest to a client's vector, without their texts."""
        vectors = self._parts.vectors
        vector, space = placed(query.vector, vectors.dims, vectors.space)
        scopes = [
            VectorScope(caller.owner, query.namespace, prefix + space) for prefix in ("", MANUAL)
        ]
        return Recalled(tuple(hit for _, hit in await self._ranked(scopes, vector, query)))

    async def by_ids(self, caller: Caller, ids: Sequence[str]) -> list[Hit]:
        """Returns memories of the caller's namespaces by id, with their texts.

        Raises:
            NoCertificateError: the request has no certificate.
        """
        unique = list(dict.fromkeys(ids))
        rows = await self._parts.database.read(
            lambda unit: index.by_ids(unit, caller.owner, unique)
        )
        allowed = {
            row.id: row
            for row in rows
            if caller.namespaces is None or row.namespace in caller.namespaces
        }
        memories = [allowed[id_] for id_ in unique if id_ in allowed]
        opened = await self._opened(caller, memories)
        now, plain = self._parts.clock(), Query("", 1)
        return [
            _with_text(_hit(memory, 1.0, plain, now), blob.content.text)
            for memory, blob in zip(memories, opened, strict=True)
            if blob is not None
        ]

    async def _opened(self, caller: Caller, memories: Sequence[Memory]) -> list[OpenedBlob | None]:
        if caller.certificate is None:
            raise NoCertificateError("Opening texts requires a certificate.")
        if not memories:
            return []
        try:
            return await self._vault.open(caller.certificate, caller.owner, memories)
        except OSError as error:
            raise DownError(f"The blobs cannot be read: {error.strerror}.") from error

    async def _ranked(
        self, scopes: Sequence[VectorScope], vector: Floats, query: Query
    ) -> list[tuple[Memory, Hit]]:
        reorders = query.sort == "recent" or query.weights.changes_order
        count = (
            max(min(_CANDIDATES_PER_HIT * query.limit, _MIN_CANDIDATES), query.limit)
            if reorders
            else query.limit
        )
        near: list[tuple[str, float]] = []
        for scope in scopes:
            space = scope.space.removeprefix(MANUAL)
            for id_, cosine in await self._parts.nearest.find(scope, vector, count):
                near.append((id_, self._parts.vectors.distance(cosine, space)))
        near.sort(key=lambda pair: pair[1])
        near = near[:count]
        owner = scopes[0].owner
        rows = await self._parts.database.read(
            lambda unit: index.by_ids(unit, owner, [id_ for id_, _ in near])
        )
        memories = {memory.id: memory for memory in rows}
        now = self._parts.clock()
        hits = [
            (memories[id_], _hit(memories[id_], distance, query, now))
            for id_, distance in near
            if id_ in memories
        ]
        if query.sort == "recent":
            hits.sort(key=lambda pair: pair[1].created_at, reverse=True)
        elif query.weights.changes_order:
            hits.sort(key=lambda pair: pair[1].score or 0.0, reverse=True)
        return hits[: query.limit]


def _hit(memory: Memory, distance: float, query: Query, now: int) -> Hit:
    weights, score = query.weights, None
    if weights.changes_order:
        age_days = max(0, now - memory.created_at) / _DAY_MS
        recency = 2.0 ** (-age_days / weights.half_life_days) if weights.recency else 0.0
        score = (
            weights.semantic * (1.0 - distance)
            + weights.recency * recency
            + weights.importance * memory.importance
        )
    created_at = datetime.fromtimestamp(memory.created_at / 1000, UTC)
    return Hit(memory.id, memory.blob_id, "", distance, created_at, memory.importance, score)


def _with_text(hit: Hit, text: str) -> Hit:
    return Hit(hit.id, hit.blob_id, text, hit.distance, hit.created_at, hit.importance, hit.score)
