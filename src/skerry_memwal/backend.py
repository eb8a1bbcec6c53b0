"""Memory backend of the plugin, for `/forget`, `skerry memory` and the page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from skerry.sdk.memory import MemoryBackendError, Redaction, Remembered, SlotStatus
from skerry_memwal.client import MemWalError, Recalled
from skerry_memwal.options import E2E, PLUGIN
from skerry_memwal.outbox import Outbox
from skerry_memwal.relayer import Relayer

MAX_HITS: Final = 100
"""Maximum number of memories of one recall."""
MAX_RECALLS: Final = 40
"""Limit on the recalls for a listing of a namespace."""


class Backend:
    """Implements `skerry.sdk.memory.SlotMemory`."""

    def __init__(self, relayer: Relayer, outbox: Outbox) -> None:
        self._relayer = relayer
        self._outbox = outbox

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Remembered]:
        """Returns the memories nearest to a text.

        Raises:
            MemoryBackendError: the server refused, or did not answer.
        """
        namespace = self._relayer.namespace(agent)
        memories = await self._recall(agent, query, min(limit, MAX_HITS), namespace)
        return [
            Remembered(memory.blob_id, memory.text, memory.relevance, _time(memory.created_at))
            for memory in memories
        ]

    async def forget(self, agent: str, phrases: Sequence[str]) -> int:
        """Erases the memories and the unsent texts that contain one of the phrases.

        Raises:
            MemoryBackendError: the server refused, or did not answer.
        """
        redaction = Redaction(phrases)
        waiting = await self._outbox.forget(agent, redaction)
        memories = await self.every(agent, phrases)
        ids = [memory.blob_id for memory in memories if redaction.text(memory.text) != memory.text]
        return waiting + await self.remove(agent, ids)

    async def remove(self, agent: str, ids: Sequence[str]) -> int:
        """Deletes memories by their ids; returns the number of deleted ones.

        Raises:
            MemoryBackendError: the server refused, or did not answer.
        """
        removed = 0
        for start in range(0, len(ids), MAX_HITS):
            try:
                part = ids[start : start + MAX_HITS]
                removed += await self._relayer.client(agent).forget(part)
            except MemWalError as error:
                raise _failed(error) from error
        return removed

    async def every(self, agent: str, queries: Sequence[str] = ()) -> list[Recalled]:
        """Returns the memories of an agent, as far as recalls reach them.

        In mode `e2e` the server lists them. In mode `relayer` it returns a text only to a query:
        the queries are `queries`, then each new memory, until none is new or all are known.

        Raises:
            MemoryBackendError: the server refused, or did not answer.
        """
        namespace = self._relayer.namespace(agent)
        try:
            listed = await self._relayer.client(agent).every(namespace)
            if listed is not None:
                return list(listed)
            count = (await self._relayer.client(agent).stats(namespace)).memory_count
        except MemWalError as error:
            raise _failed(error) from error
        by_id: dict[str, Recalled] = {}
        pending = [*queries, "user"]
        for _ in range(MAX_RECALLS):
            if not pending or (len(by_id) >= count and not queries):
                break
            before = set(by_id)
            for memory in await self._recall(agent, pending.pop(0), MAX_HITS, namespace):
                by_id[memory.blob_id] = memory
            if len(by_id) >= count:
                break
            pending += [by_id[name].text for name in by_id.keys() - before]
        return list(by_id.values())

    async def status(self, agent: str) -> SlotStatus:
        """Returns the state of the server, the key and the outbox."""
        relayer = self._relayer
        options, namespace = relayer.options, relayer.namespace(agent)
        waiting, refused = await self._outbox.counts()
        try:
            health = await relayer.client(agent).health()
            stats = await relayer.client(agent).stats(namespace)
            await relayer.client(agent).check()
        except MemWalError as error:
            text = f"{PLUGIN} does not work: {error}"
            if waiting:
                text += f" {waiting} texts wait to be sent."
            return SlotStatus(is_ok=False, text=text, remedy=error.remedy, provider=PLUGIN)
        relayer.answered()
        count = stats.memory_count
        memories = "1 memory" if count == 1 else f"{count} memories"
        text = (
            f"{PLUGIN} works: {options.server_url} (version {health.version or 'unknown'}) has"
            f" {memories} in the namespace {namespace}{_suffix(options.mode)}."
        )
        remedy = ""
        if not health.write_ready:
            text += " It accepts no new memories at the moment."
            remedy = "Check the server: skerry relayer doctor"
        if waiting:
            text += f" {waiting} texts wait to be sent."
        if refused:
            text += f" {refused} texts were refused."
            remedy = remedy or "The log of the gateway has the reasons: skerry logs"
        return SlotStatus(
            is_ok=health.write_ready and not refused,
            text=text,
            remedy=remedy,
            provider=PLUGIN,
            count=stats.memory_count,
        )

    async def _recall(
        self, agent: str, query: str, limit: int, namespace: str
    ) -> Sequence[Recalled]:
        try:
            return await self._relayer.client(agent).recall(query, limit, namespace)
        except MemWalError as error:
            raise _failed(error) from error


def _suffix(mode: str) -> str:
    return ", and this gateway encrypts them" if mode == E2E else ""


def _failed(error: MemWalError) -> MemoryBackendError:
    failed = MemoryBackendError(str(error))
    failed.remedy = error.remedy
    return failed


def _time(text: str) -> int | None:
    """Returns the milliseconds since 1970 of an ISO 8601 time; None if it is invalid."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
