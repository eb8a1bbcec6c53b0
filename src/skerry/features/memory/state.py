"""The state of an index as people see it: what is in it, and how that is found."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from skerry.features.memory.files import note_of
from skerry.features.memory.index import INDEXED_AT
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.lacking import without
from skerry.model.memory import (
    MemoryBacklog,
    MemoryFallback,
    MemoryMode,
    MemorySource,
    MemoryStatus,
)

EACH_SECONDS: Final = 0.25
"""Seconds for the vector of a passage, until measured here."""


def filled(found: MemoryStatus, tables: Tables, each: float, share: float) -> MemoryStatus:
    """Returns the state with what the tables know.

    `each` is the seconds that the vector of a passage costs, `share` that of a core which the
    vectors of conversations may take.
    """
    at = tables.meta(INDEXED_AT)
    have, there = tables.vector_counts()
    sources = tables.counts()
    lacks: list[tuple[str, int, int]] = []
    refused: MemoryFallback | None = None
    if found.model:
        refused = without(tables, f"{found.provider}/{found.model}")
        lacks = tables.lacks(found.provider, found.model)
    failed = [f"{path}: {reason}" for path, reason in tables.failed()]
    failed += filter(None, [note_of(tables.encodings())])
    return replace(
        found,
        files=sum(files for _, files, _ in sources),
        chunks=there,
        indexed_at=None if at is None else int(at),
        mode=found.mode if have else MemoryMode.TEXT,
        vectors=have,
        fallback=found.fallback or refused,
        sources=tuple(sources),
        lacking=tuple(lacks),
        backlog=backlog({source: lack - no for source, lack, no in lacks}, each, share),
        notes=(*found.notes, *failed),
    )


def backlog(waiting: Mapping[str, int], each: float, share: float) -> MemoryBacklog | None:
    """Returns the passages without vectors and the time they need; None without any (pure)."""
    notes = waiting.get(MemorySource.MEMORY.value, 0)
    said = waiting.get(MemorySource.SESSIONS.value, 0)
    if not notes + said:
        return None
    later = None if said and not share else notes * each + (said * each / share if said else 0.0)
    return MemoryBacklog(notes, said, later)
