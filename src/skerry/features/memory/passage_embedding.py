"""Gives passages their vectors, behind the text: from the cache, else from a model.

Every batch is written into the cache before the next is asked for, so that a stop at any point
costs one batch. Passages get theirs a thousand at a time: taking in one costs much the same.
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
LOT: Final = 1000
"""Texts between two times at which passages get their vectors."""
ADOPTED: Final = 2000
"""Passages that get what the cache has in one transaction."""
AGAIN_MS: Final = DAY_MS
"""Milliseconds after which a text is tried again that the model gave no vector."""
RIPE_MS: Final = 3_600_000
"""Milliseconds without a message after which a conversation's last passage counts as complete."""
PIECEMEAL: Final = 4
"""Texts that are asked for at once where there is little time."""
CACHE_MOST: Final = 20_000
"""Vectors, 30 MB, from which on those of texts that are gone are forgotten."""
_FLOAT: Final = "<f4"


@dataclass(frozen=True, slots=True)
class PassageSelection:
    """Work of one round."""

    sources: Sequence[MemorySource] = ORDER
    seconds: float | None = None
    """Seconds after which no further request is made."""
    probes: bool = False
    """Asks a server first for the present length of its vectors."""


async def embed(
    index: Index,
    embedder: Embedder,
    report: Callable[[MemoryProgress], None],
    selection: PassageSelection | None = None,
) -> int:
    """Gives passages their vectors of this model, notes first; returns how many texts it was given.

    Where the index has vectors of another model, or of another size, they are taken out first:
    until all is embedded again, words alone are compared for the rest. A text without a vector is
    noted with the reason, and asked for again after `AGAIN_MS`.

    Raises:
        EmbeddingError: the model fails. What was embedded before stays.
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
    if job.done:
        await _thread(partial(_tidy, index))
    return job.done


def waits(index: Index, model: EmbeddingModel) -> bool:
    """Returns whether a whole passage of a conversation has no vector, and may get one."""
    with index.tables() as tables:
        if label_of(tables) != str(model) and label_of(tables):
            return True
        source = MemorySource.SESSIONS.value
        return bool(tables.lacking(source, model.provider, model.model, 1, _times(index)))


def _times(index: Index) -> tuple[int, int]:
    now = index.clock.now_ms()
    return now - AGAIN_MS, now - RIPE_MS


class _Job:
    """One round over what has no vector."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        report: Callable[[MemoryProgress], None],
        selection: PassageSelection,
    ) -> None:
        self._wanted = selection
        self._end = inf if selection.seconds is None else anyio.current_time() + selection.seconds
        self.done = 0
        self._index = index
        self._embedder = embedder
        self._model = embedder.model
        self._report = report
        self._asked: set[str] = set()
        """Hashes of texts: none is asked for twice in a round, whatever becomes of its vector."""
        self._resized = False
        self._given: Sequence[int] | None = None
        """The passages of the lot; at first it may be any that the cache knows."""
        self._whole = 0

    async def run(self) -> None:
        """Asks until nothing lacks a vector that could have one."""
        await _thread(self._prepare)
        while lot := await _thread(self._lot):
            era, bulk = self._index.era, max(1, self._embedder.bulk)
            bulk = bulk if self._end == inf else min(bulk, PIECEMEAL)
            for begin in range(0, len(lot), bulk):
                if anyio.current_time() >= self._end:
                    return
                if not await self._ask(dict(lot[begin : begin + bulk]), era):
                    break  # something was forgotten, or the size changed: looked up again

    async def _ask(self, texts: dict[str, str], era: int) -> bool:
        """Asks for some texts by hash; returns whether the list of what to ask for is the same."""
        embedded = await passages(self._embedder, list(texts.values()))
        if self._embedder.model != self._model:
            raise EmbeddingRefusedError("The embedding model was changed meanwhile.")
        hashes = list(texts)
        vectors = {hashes[number]: row for number, row in embedded.vectors.items()}
        reasons = {hashes[number]: why for number, why in embedded.refused.items()}
        stored = await _thread(partial(self._keep, vectors, reasons, era))
        if embedded.error is not None:
            raise embedded.error
        if not stored:
            return False
        self._asked.update(texts)
        self.done += len(texts)
        self._report(MemoryProgress("embeddings", min(self.done, self._whole), self._whole))
        sizes = {len(row) for row in vectors.values()}
        return not sizes or not await _thread(partial(self._resize, sizes.pop()))

    def adopt(self, among: Sequence[int] | None = None) -> None:
        """Gives passages, those or all, the vectors that the cache has."""
        with self._index.tables() as tables:
            ours, size = label_of(tables) == str(self._model), size_of(tables)
        if ours and size:
            _adopt(self._index, self._model, size, among)

    def _prepare(self) -> None:
        """Takes out vectors of another model or size."""
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

    def _lot(self) -> list[tuple[str, str]]:
        """Returns the next texts that the model is asked for, by hash, after using the cache."""
        provider, model = self._model.provider, self._model.model
        self.adopt(self._given)
        limit = max(LOT, self._embedder.bulk) + len(self._asked)
        with self._index.tables() as tables:
            have, total = tables.vector_counts()
            for source in self._wanted.sources:
                rows = tables.lacking(source.value, provider, model, limit, _times(self._index))
                lot = {sha: text for _, sha, text in rows if sha not in self._asked}
                if lot:
                    self._given = [key for key, sha, _ in rows if sha in lot]
                    self._whole = max(self._whole, self.done + total - have)
                    return list(lot.items())
        return []

    def _keep(self, vectors: Mapping[str, Floats], reasons: Mapping[str, str], era: int) -> bool:
        """Puts the vectors in the cache, from which all passages with such a text get theirs.

        Not where something was forgotten since: it may be one of these texts. Returns whether.
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
        """Lets the index have vectors of this size; returns whether it had others."""
        with self._index.tables() as tables:
            before = size_of(tables)
        if before in {None, size} or self._resized:
            return False
        self._resized = True  # once in a round: two servers behind one name may take turns
        self._renew(size)
        self._given = None
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
    """Returns whose vectors the tables have: `provider/model`, empty before the first."""
    return tables.meta(EMBEDDED_WITH) or ""


def size_of(tables: Tables) -> int | None:
    """Returns how many numbers the vectors of the tables have; None before the first."""
    return int(tables.meta(SIZE) or 0) or None


def _adopt(
    index: Index, model: EmbeddingModel, size: int, among: Sequence[int] | None = None
) -> None:
    """Gives passages the vectors that the cache has of their texts."""
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
        most = index.settings.cache
        tables.prune_cache(max(CACHE_MOST, 2 * total) if most is None else most)
        return IndexChange()

    index.write(write)


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
