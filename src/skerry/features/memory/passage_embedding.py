"""Computes the vectors of passages after their text was indexed: from the cache or a model.

Every batch is written into the cache before the next request, so that a stop loses one batch only.
Passages get their vectors in groups of a thousand, since the cost of a write hardly depends on its
size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from skerry.features.memory.collection_sync import EMBEDDED_WITH, SIZE, is_sound, kind
from skerry.features.memory.index import Index
from skerry.features.memory.index_keeper import ORDER
from skerry.features.memory.index_tables import IndexChange, Tables
from skerry.infra.clock import DAY_MS
from skerry.model.memory import MemoryProgress, MemorySource
from skerry_recall.embed import Embedder, EmbeddingModel, EmbeddingRefusedError, Kind
from skerry_recall.numbers import Floats
from skerry_recall.passages import EASY, passages

T = TypeVar("T")
GROUP: Final = 1000
"""Number of texts after which passages get their vectors."""
ADOPTED: Final = 2000
"""Passages that get cached vectors in one transaction."""
AGAIN_MS: Final = DAY_MS
"""Milliseconds after which a text that the model refused is retried."""
RIPE_MS: Final = 3_600_000
"""Milliseconds without a message after which a conversation's last passage counts as complete."""
PIECEMEAL: Final = 4
"""Texts per request when the time is limited."""
CACHE_MOST: Final = 20_000
"""Number of cached vectors (30 MB) above which those of deleted texts are removed."""
_FLOAT: Final = "<f4"


@dataclass(frozen=True, slots=True)
class PassageSelection:
    """Selection of passages for one round."""

    sources: Sequence[MemorySource] = ORDER
    seconds: float | None = None
    """Seconds after which no further request is made."""
    probes: bool = False
    """Requests one vector first, to learn the present size of a hosted model."""


async def embed(
    index: Index,
    embedder: Embedder,
    report: Callable[[MemoryProgress], None],
    selection: PassageSelection | None = None,
) -> int:
    """Computes missing vectors with this model, notes first; returns the number of texts sent.

    Vectors of another model or size are removed first: passages without a vector are then found
    by words only. A refused text is recorded with the reason, and retried after `AGAIN_MS`.

    Raises:
        EmbeddingError: the model failed. Earlier vectors are kept.
        MemoryBackendError: the index cannot be written.
        IndexDamagedError: it is damaged.
    """
    selection = selection or PassageSelection()
    job = _Job(index, embedder, report, selection)
    try:
        if selection.probes and not embedder.local:
            await embedder.embed([EASY], Kind.PASSAGE)
        await job.run()
    finally:
        with anyio.CancelScope(shield=True):
            await _thread(job.adopt)
    if job.completed:
        await _thread(partial(_tidy, index))
    return job.completed


def waits(index: Index, model: EmbeddingModel) -> bool:
    """Returns whether a complete passage of a conversation lacks a vector and is not refused."""
    with index.tables() as tables:
        if label_of(tables) != str(model) and label_of(tables):
            return True
        source = MemorySource.SESSIONS.value
        return bool(tables.lacking(source, model.provider, model.model, 1, _times(index)))


def _times(index: Index) -> tuple[int, int]:
    now = index.clock.now_ms()
    return now - AGAIN_MS, now - RIPE_MS


class _Job:
    """One round over the passages without a vector."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        report: Callable[[MemoryProgress], None],
        selection: PassageSelection,
    ) -> None:
        self._selection = selection
        self._end = inf if selection.seconds is None else anyio.current_time() + selection.seconds
        self.completed = 0
        self._index = index
        self._embedder = embedder
        self._model = embedder.model
        self._report = report
        self._requested: set[str] = set()
        """Hashes of the requested texts; each text is requested at most once per round."""
        self._resized = False
        self._group_ids: Sequence[int] | None = None
        """The passages of the group; None at first: any passage with a cached vector."""
        self._whole = 0

    async def run(self) -> None:
        """Requests vectors until no passage lacks one, except refused texts."""
        await _thread(self._prepare)
        while group := await _thread(self._next_group):
            era, bulk = self._index.era, max(1, self._embedder.bulk)
            bulk = bulk if self._end == inf else min(bulk, PIECEMEAL)
            for begin in range(0, len(group), bulk):
                if anyio.current_time() >= self._end:
                    return
                if not await self._ask(dict(group[begin : begin + bulk]), era):
                    break  # text was erased, or the size changed: query the tables again

    async def _ask(self, texts: dict[str, str], era: int) -> bool:
        """Requests vectors for texts by hash; returns whether the group is still valid."""
        embedded = await passages(self._embedder, list(texts.values()))
        if self._embedder.model != self._model:
            raise EmbeddingRefusedError("The embedding model was changed meanwhile.")
        hashes = list(texts)
        vectors = {hashes[number]: row for number, row in embedded.vectors.items()}
        reasons = {hashes[number]: reason for number, reason in embedded.refused.items()}
        stored = await _thread(partial(self._keep, vectors, reasons, era))
        if embedded.error is not None:
            raise embedded.error
        if not stored:
            return False
        self._requested.update(texts)
        self.completed += len(texts)
        self._report(MemoryProgress("embeddings", min(self.completed, self._whole), self._whole))
        sizes = {len(row) for row in vectors.values()}
        return not sizes or not await _thread(partial(self._resize, sizes.pop()))

    def adopt(self, among: Sequence[int] | None = None) -> None:
        """Gives these passages, or all, their cached vectors."""
        with self._index.tables() as tables:
            is_current, size = label_of(tables) == str(self._model), size_of(tables)
        if is_current and size:
            _adopt(self._index, self._model, size, among)

    def _prepare(self) -> None:
        """Removes vectors of another model or size."""
        with self._index.tables() as tables:
            label, size = label_of(tables), size_of(tables)
            cached = tables.size_of(self._model.provider, self._model.model)
        now = self._embedder.dims
        if label != str(self._model):
            self._renew(now or cached)
        elif size is None:
            self._note_size(now or cached)
        elif now is not None and now != size:
            self._renew(now)

    def _next_group(self) -> list[tuple[str, str]]:
        """Returns the next texts for the model, by hash, after using the cache."""
        provider, model = self._model.provider, self._model.model
        self.adopt(self._group_ids)
        limit = max(GROUP, self._embedder.bulk) + len(self._requested)
        with self._index.tables() as tables:
            have, total = tables.vector_counts()
            for source in self._selection.sources:
                rows = tables.lacking(source.value, provider, model, limit, _times(self._index))
                group = {sha: text for _, sha, text in rows if sha not in self._requested}
                if group:
                    self._group_ids = [key for key, sha, _ in rows if sha in group]
                    self._whole = max(self._whole, self.completed + total - have)
                    return list(group.items())
        return []

    def _keep(self, vectors: Mapping[str, Floats], reasons: Mapping[str, str], era: int) -> bool:
        """Writes the vectors into the cache, from which all passages with these texts get them.

        Returns False without writing if text was erased meanwhile: it may be one of these.
        """
        index, provider, model = self._index, self._model.provider, self._model.model
        blobs = [(sha, row.astype(_FLOAT).tobytes()) for sha, row in vectors.items()]

        def write(tables: Tables) -> IndexChange:
            if index.era == era:
                tables.cache(provider, model, blobs)
                tables.refuse(provider, model, reasons.items(), index.clock.now_ms())
                if vectors and size_of(tables) is None:
                    tables.note(SIZE, str(len(next(iter(vectors.values())))))
            return IndexChange()

        index.write(write)
        return index.era == era

    def _resize(self, size: int) -> bool:
        """Sets the size of the index's vectors; returns whether it was another."""
        with self._index.tables() as tables:
            before = size_of(tables)
        if before in {None, size} or self._resized:
            return False
        self._resized = True  # once per round: two servers under one name may alternate
        self._renew(size)
        self._group_ids = None
        return True

    def _renew(self, size: int | None) -> None:
        def change(tables: Tables) -> IndexChange:
            tables.unembed()
            tables.note(EMBEDDED_WITH, str(self._model))
            tables.note(SIZE, str(size or ""))
            return IndexChange()

        self._index.renew(kind(str(self._model), size), change)

    def _note_size(self, size: int | None) -> None:
        if size:
            self._index.write(lambda tables: _sized(tables, size))


def _sized(tables: Tables, size: int) -> IndexChange:
    tables.note(SIZE, str(size))
    return IndexChange()


def label_of(tables: Tables) -> str:
    """Returns the model of the vectors, `provider/model`; "" before the first vector."""
    return tables.meta(EMBEDDED_WITH) or ""


def size_of(tables: Tables) -> int | None:
    """Returns the size of the vectors; None before the first vector."""
    return int(tables.meta(SIZE) or 0) or None


def _adopt(
    index: Index, model: EmbeddingModel, size: int, among: Sequence[int] | None = None
) -> None:
    """Gives passages the cached vectors of their texts."""
    while True:
        with index.tables() as tables:
            rows = tables.cached(model.provider, model.model, size, ADOPTED, among)
        if not rows:
            return
        sound = [(key, blob) for key, blob in rows if is_sound(blob, size)]
        if len(sound) < len(rows):
            unsound = [key for key, blob in rows if not is_sound(blob, size)]
            index.write(partial(_uncache, model=model, size=size, keys=unsound))
        index.embed(kind(str(model), size), sound)


def _uncache(tables: Tables, model: EmbeddingModel, size: int, keys: Sequence[int]) -> IndexChange:
    tables.uncache(model.provider, model.model, size, keys)
    return IndexChange()


def _tidy(index: Index) -> None:
    def write(tables: Tables) -> IndexChange:
        _, total = tables.vector_counts()
        limit = index.settings.cache
        tables.prune_cache(max(CACHE_MOST, 2 * total) if limit is None else limit)
        return IndexChange()

    index.write(write)


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
