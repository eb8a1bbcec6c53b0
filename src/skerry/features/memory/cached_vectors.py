"""Restores vectors of rewritten passages from the cache. Blocking."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from skerry.features.memory.collection_sync import EMBEDDED_WITH, SIZE, is_sound, kind
from skerry.features.memory.index_tables import Tables

AT_ONCE: Final = 1000


class EmbeddedTexts(Protocol):
    """The part of an index that `retake` uses."""

    def tables(self) -> AbstractContextManager[Tables]:
        """Gives a consistent snapshot of the tables."""
        ...

    def embed(self, label: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Stores the vectors of passages."""
        ...


def retake(index: EmbeddedTexts) -> None:
    """Gives rewritten passages the vectors of their texts from the cache; asks no model."""
    with index.tables() as tables:
        label, size = tables.meta(EMBEDDED_WITH) or "", int(tables.meta(SIZE) or 0)
    provider, _, model = label.partition("/")
    while size:
        with index.tables() as tables:
            rows = tables.cached(provider, model, size, AT_ONCE)
        sound = [(key, blob) for key, blob in rows if is_sound(blob, size)]
        if sound:
            index.embed(kind(label, size), sound)
        if len(rows) < AT_ONCE or not sound:
            return
