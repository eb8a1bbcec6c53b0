"""Client in mode `e2e`: encrypts and embeds texts in the gateway; the server gets no plain text.

It sends no certificate, so that the server cannot open memories of the mode `relayer`.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from struct import pack, unpack
from typing import Final
from urllib.parse import quote, urlencode

import anyio
from msgspec import Struct

from skerry.sdk.embedding import Embedded, Embeddings
from skerry.sdk.errors import PluginError
from skerry.sdk.facts import facts, folded
from skerry.sdk.fetch import Fetched
from skerry_memwal.cipher import Cipher, Sealed
from skerry_memwal.client import Accepted, Client, Fact, MemWalError, Recalled

WIDTH: Final = 1536
"""Length of a vector in requests; a shorter vector is padded with zeros."""
MAX_HITS: Final = 100
"""Maximum number of hits of one request."""
MAX_CHARACTERS: Final = 1000
"""Characters of one fact."""
MAX_FACTS: Final = 20
"""Facts of one text."""
PAGE: Final = 500
MAX_PAGES: Final = 200
"""Limit on the pages of the list of memories."""
AT_ONCE: Final = 4
"""Maximum number of concurrent fetches of blobs."""
_CANDIDATES_PER_HIT: Final = 4
"""Factor of requested hits to results, because hits of the mode `relayer` are dropped."""
COMPARED: Final = 8
"""Number of memories with which a new fact is compared."""
_FLOAT: Final = 4
_MAX_DISTANCE: Final = 0.35
"""Distance up to which a memory is compared with a new fact word by word."""
_MISSING: Final = 404
_NUMBERED: Final = re.compile(r"^\d+\. ", re.MULTILINE)


class _Hit(Struct, frozen=True):
    """A hit of `recall/manual`."""

    blob_id: str
    distance: float
    created_at: str = ""


class _Hits(Struct, frozen=True):
    results: list[_Hit]


class _Stored(Struct, frozen=True):
    blob_id: str


class _Row(Struct, frozen=True):
    namespace_id: str
    blob_id: str
    created_at: str = ""


class _Page(Struct, frozen=True):
    memories: list[_Row]
    next_cursor: str | None = None


class SealedClient(Client):
    """One agent's account at one server, in mode `e2e`.

    Args:
        plain: Client of the mode `relayer` with the same account, whose connection is used.
        cipher: Encrypts with the key of the account.
        embeddings: Embeds texts on this machine.
        agent: Agent whose embedding model is used.

    """

    def __init__(self, plain: Client, cipher: Cipher, embeddings: Embeddings, agent: str) -> None:
        super().__init__(plain.server, plain.url, plain.signer, plain.seconds)
        self._cipher = cipher
        self._embeddings = embeddings
        self._agent = agent

    async def recall(self, query: str, limit: int, namespace: str) -> Sequence[Recalled]:
        """Returns the memories nearest to a text, the nearest first.

        The server selects the candidates; the distances are computed here.

        Raises:
            MemWalError: the server refused or did not answer, or the text is not embedded.
        """
        embedded_query = await self._embedded([query], is_query=True)
        hits = await self._near(
            embedded_query, min(MAX_HITS, limit * _CANDIDATES_PER_HIT), namespace
        )
        memories: list[Recalled] = []
        for start in range(0, len(hits), limit):
            if len(memories) >= limit:
                break
            memories += await self._opened(hits[start : start + limit], namespace, embedded_query)
        return sorted(memories, key=lambda memory: memory.distance)[:limit]

    async def analyze(
        self, text: str, namespace: str, *, occurred_at: str = "", key: str = ""
    ) -> Sequence[Fact]:
        """Extracts facts from a text by rules, in this process, and stores the new ones.

        A repeated text stores nothing, because its facts are in the memory already.

        Raises:
            MemWalError: the server refused or did not answer, or the text is not embedded.
        """
        del key
        stored: list[Fact] = []
        for fact in facts(_NUMBERED.sub("", text), _day(occurred_at))[:MAX_FACTS]:
            blob_id, is_new = await self._store(fact[:MAX_CHARACTERS], namespace)
            if is_new:
                stored.append(Fact(fact[:MAX_CHARACTERS], blob_id, blob_id))
        return stored

    async def remember(self, text: str, namespace: str, key: str = "") -> Accepted:
        """Stores a text unchanged, unless the memory has it already.

        Raises:
            MemWalError: the server refused or did not answer, or the text is not embedded.
        """
        del key
        blob_id, _ = await self._store(text, namespace)
        return Accepted(blob_id, "done")

    async def check(self) -> None:
        """Checks that a local embedding model answers.

        Raises:
            MemWalError: this machine has none, or it does not answer.
        """
        await self._embedded(["check"], is_query=True)

    async def every(self, namespace: str) -> Sequence[Recalled] | None:
        """Returns all memories of a namespace that this key encrypted.

        Raises:
            MemWalError: the server refused, or did not answer.
        """
        rows = await self._rows(namespace)
        hits = [_Hit(row.blob_id, 1.0, row.created_at) for row in rows]
        memories: list[Recalled] = []
        for start in range(0, len(hits), PAGE):
            memories += await self._opened(hits[start : start + PAGE], namespace)
        return memories

    async def _rows(self, namespace: str) -> list[_Row]:
        owner, rows = (await self.stats(namespace)).owner, []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            query = {"limit": str(PAGE)} | ({"updated_after": cursor} if cursor else {})
            path = f"/v1/owners/{quote(owner, safe='')}/memories?{urlencode(query)}"
            page = self._read(await self._signed("GET", path, None), _Page)
            rows += [row for row in page.memories if row.namespace_id == namespace]
            if page.next_cursor in {None, cursor}:
                break
            cursor = page.next_cursor
        return rows

    async def _store(self, text: str, namespace: str) -> tuple[str, bool]:
        """Returns the id of the memory with this text, and whether it was stored now."""
        embedded = await self._embedded([text])
        near = await self._near(embedded, COMPARED, namespace)
        near, words = [hit for hit in near if hit.distance <= _MAX_DISTANCE], folded(text)
        for memory in await self._opened(near, namespace):
            if folded(memory.text) == words:
                return memory.blob_id, False
        (vector,) = embedded.vectors
        sealed = Sealed(text, embedded.space, pack(f"<{len(vector)}f", *vector))
        data = self._cipher.encrypt(sealed, namespace)
        fields = {
            "encrypted_data": b64encode(data).decode(),
            "vector": _padded(vector),
            "namespace": namespace,
        }
        reply = await self._signed("POST", "/api/remember/manual", fields)
        return self._read(reply, _Stored).blob_id, True

    async def _near(self, embedded_query: Embedded, limit: int, namespace: str) -> list[_Hit]:
        (vector,) = embedded_query.vectors
        fields = {"vector": _padded(vector), "limit": limit, "namespace": namespace}
        hits = self._read(await self._signed("POST", "/api/recall/manual", fields), _Hits).results
        return list({hit.blob_id: hit for hit in hits}.values())[:limit]

    async def _opened(
        self, hits: Sequence[_Hit], namespace: str, embedded_query: Embedded | None = None
    ) -> list[Recalled]:
        """Returns the memories of hits, except those that another key or mode encrypted.

        Memories of another model than the query are not comparable and are dropped.
        """
        texts: dict[int, Recalled] = {}
        errors: list[MemWalError] = []
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def open_blob(index: int, hit: _Hit) -> None:
            async with limiter:
                try:
                    memory = await self._blob(hit.blob_id, namespace) if not errors else None
                except MemWalError as error:
                    errors.append(error)
                    return
            if memory is None or (
                embedded_query is not None and memory.space != embedded_query.space
            ):
                return
            distance = (
                hit.distance if embedded_query is None else self._distance(memory, embedded_query)
            )
            texts[index] = Recalled(hit.blob_id, memory.text, distance, hit.created_at)

        async with anyio.create_task_group() as tasks:
            for index, hit in enumerate(hits):
                tasks.start_soon(open_blob, index, hit)
        if errors:
            raise errors[0]
        return [texts[index] for index in sorted(texts)]

    async def _blob(self, blob_id: str, namespace: str) -> Sealed | None:
        """Returns a memory; None for a missing blob, or one that this key did not encrypt."""
        try:
            reply = await self._send("GET", f"/v1/blobs/{quote(blob_id, safe='')}", b"", {})
        except MemWalError as error:
            if error.status == _MISSING:
                return None
            raise
        return self._cipher.decrypt(reply.body, namespace)

    def _distance(self, memory: Sealed, embedded_query: Embedded) -> float:
        count = len(embedded_query.vectors[0])
        if len(memory.vector) != count * _FLOAT:
            return 2.0
        vector = unpack(f"<{count}f", memory.vector)
        return 1 - self._embeddings.relevance(
            embedded_query.space, vector, embedded_query.vectors[0]
        )

    async def _embedded(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:
        """Returns the vectors of texts, computed by a local model.

        Raises:
            MemWalError: there is no such model, or it does not answer.
        """
        try:
            embedded = await self._embeddings.embed(
                texts, agent=self._agent, is_query=is_query, local_only=True
            )
        except PluginError as error:
            raise MemWalError(str(error), error.remedy) from error
        if any(len(vector) > WIDTH for vector in embedded.vectors):
            raise MemWalError(
                f"The vectors of {embedded.space} have more than {WIDTH} numbers.",
                "Use another embedding model for this agent: memorySearch.provider.",
            )
        return embedded

    async def _signed(
        self,
        method: str,
        path: str,
        fields: Mapping[str, object] | None,
        *,
        seal: bool = True,
    ) -> Fetched:
        """Sends a signed request, without a certificate."""
        del seal
        return await super()._signed(method, path, fields, seal=False)


def _padded(vector: Sequence[float]) -> list[float]:
    return [*vector, *([0.0] * (WIDTH - len(vector)))]


def _day(text: str) -> date | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text).date()
    return None
