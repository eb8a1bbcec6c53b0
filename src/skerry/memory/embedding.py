"""Gives passages their vectors, behind the text: from the cache, else from a model.

Every batch is written into the cache before the next is asked for, so that a stop at any point
costs one batch. Passages get theirs a thousand at a time: taking in one costs much the same.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread

from skerry.memory.derived import EMBEDDED_WITH
from skerry.memory.index import Index
from skerry.memory.tables import Change, Tables
from skerry.model.memory import MemoryProgress
from skerry_recall.embed import (
    Embedder,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    Kind,
    checked,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
LOT: Final = 1000
"""Texts between two times at which passages get their vectors."""
ADOPTED: Final = 2000
"""Passages that get what the cache has in one transaction."""
CACHE_MOST: Final = 20_000
"""Vectors, 30 MB, from which on those of texts that are gone are forgotten."""
_FLOAT: Final = "<f4"


async def embed(index: Index, embedder: Embedder, report: Callable[[MemoryProgress], None]) -> int:
    """Give every passage a vector of this model; return how many texts the model was asked for.

    Where the index has vectors of another model they are taken out first: until all is embedded
    again, words alone are compared.

    Raises:
        EmbeddingError: the model fails. What was embedded before stays.
        MemoryBackendError: the index cannot be written.
        DamagedError: it is damaged.
    """
    model, done, whole = embedder.model, 0, 0
    await _thread(partial(_prepare, index, model))
    while True:
        era = index.era
        lacking, left = await _thread(partial(_lacking, index, embedder))
        if not lacking:
            break
        whole = max(whole, left)
        for begin in range(0, len(lacking), embedder.bulk):
            texts = dict(lacking[begin : begin + embedder.bulk])
            try:
                vectors = await embedder.embed(list(texts.values()), Kind.PASSAGE)
                if embedder.model != model:
                    raise EmbeddingRefusedError("The embedding model was changed meanwhile.")
                keep = partial(_keep, index, model, embedder.dims, list(texts), vectors, era)
                kept = await _thread(keep)
            except EmbeddingError:
                await _thread(partial(_adopt, index, model, embedder.dims))
                raise
            if not kept:
                break  # something was forgotten: what is asked for is looked up again
            done += len(texts)
            so_far = whole - left + begin + len(texts)
            report(MemoryProgress("embeddings", min(so_far, whole), whole))
    if done:
        await _thread(partial(_tidy, index))
    return done


def label_of(tables: Tables) -> str:
    """Return whose vectors the tables have: `provider/model`, empty before the first."""
    return tables.meta(EMBEDDED_WITH) or ""


def _prepare(index: Index, model: EmbeddingModel) -> None:
    """Take out the vectors of another model."""
    with index.tables() as tables:
        if label_of(tables) == str(model):
            return

    def change(tables: Tables) -> Change:
        tables.unembed()
        tables.note(EMBEDDED_WITH, str(model))
        return Change()

    index.renew(str(model), change)


def _lacking(index: Index, embedder: Embedder) -> tuple[list[tuple[str, str]], int]:
    """Give what the cache has; return the next texts that a model is asked for, by hash.

    Beside them stands how many passages are left.
    """
    _adopt(index, embedder.model, embedder.dims, among=max(ADOPTED, embedder.bulk))
    with index.tables() as tables:
        have, there = tables.vector_counts()
        rows = tables.lacking(max(LOT, embedder.bulk))
    return list({sha: text for _, sha, text in rows}.items()), there - have


def _adopt(index: Index, model: EmbeddingModel, dims: int | None, among: int = -1) -> None:
    """Give passages the vectors that the cache has of their texts.

    At the end none of the first `among` without a vector could have one; of all, with -1.
    """
    while True:
        with index.tables() as tables:
            found = tables.cached(model.provider, model.model, ADOPTED, among)
        if not found:
            return
        sound = [(key, blob) for key, blob in found if is_sound(blob, dims)]
        if len(sound) < len(found):
            unsound = [key for key, blob in found if not is_sound(blob, dims)]
            index.write(partial(_uncache, model=model, keys=unsound))
        index.embed(str(model), sound)


def _uncache(tables: Tables, model: EmbeddingModel, keys: Sequence[int]) -> Change:
    tables.uncache(model.provider, model.model, keys)
    return Change()


def _keep(
    index: Index,
    model: EmbeddingModel,
    dims: int | None,
    hashes: Sequence[str],
    vectors: "NDArray[np.float32]",
    era: int,
) -> bool:
    """Put the vectors in the cache, from which all passages with such a text get theirs.

    Not where something was forgotten since: it may be one of these texts. Returns whether it did.
    """
    sound = checked(vectors, len(hashes), dims, str(model))
    blobs = [row.astype(_FLOAT).tobytes() for row in sound]

    def write(tables: Tables) -> Change:
        if index.era == era:
            tables.cache(model.provider, model.model, list(zip(hashes, blobs, strict=True)))
        return Change()

    index.write(write)
    return index.era == era


def _tidy(index: Index) -> None:
    def write(tables: Tables) -> Change:
        _, there = tables.vector_counts()
        most = index.settings.cache
        tables.prune_cache(max(CACHE_MOST, 2 * there) if most is None else most)
        return Change()

    index.write(write)


def vector_of(blob: bytes) -> "NDArray[np.float32]":
    """Return a vector as the tables have it."""
    import numpy as np  # noqa: PLC0415 - see above

    return np.frombuffer(blob, _FLOAT)


def is_sound(blob: bytes, dims: int | None) -> bool:
    """Return whether it is a vector of this length, without what is no number."""
    import numpy as np  # noqa: PLC0415 - see above

    if len(blob) % 4 or not blob or (dims is not None and len(blob) != 4 * dims):
        return False
    return bool(np.isfinite(vector_of(blob)).all())


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
