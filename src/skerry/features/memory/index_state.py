"""The state of an index as people see it: what is in it, and how that is found."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from skerry.features.memory.index import INDEXED_AT
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.markdown_files import note_of
from skerry.features.memory.missing_vectors import without
from skerry.model.memory import (
    MemoryBacklog,
    MemoryFallback,
    MemoryMode,
    MemorySource,
    MemoryStatus,
)

EACH_SECONDS: Final = 0.25
"""Seconds for the vector of a passage, until measured here."""


def filled(status: MemoryStatus, tables: Tables, each: float, share: float) -> MemoryStatus:
    """Returns the state with what the tables know.

    `each` is the seconds that the vector of a passage costs, `share` that of a core which the
    vectors of conversations may take.
    """
    at = tables.meta(INDEXED_AT)
    have, total = tables.vector_counts()
    sources = tables.counts()
    lacks: list[tuple[str, int, int]] = []
    refused: MemoryFallback | None = None
    if status.model:
        refused = without(tables, f"{status.provider}/{status.model}")
        lacks = tables.lacks(status.provider, status.model)
    failed = [f"{path}: {reason}" for path, reason in tables.failed()]
    failed += filter(None, [note_of(tables.encodings())])
    return replace(
        status,
        files=sum(files for _, files, _ in sources),
        chunks=total,
        indexed_at=None if at is None else int(at),
        mode=status.mode if have else MemoryMode.TEXT,
        vectors=have,
        fallback=status.fallback or refused,
        sources=tuple(sources),
        lacking=tuple(lacks),
        backlog=backlog({source: lack - no for source, lack, no in lacks}, each, share),
        notes=(*status.notes, *failed),
    )


def backlog(waiting: Mapping[str, int], each: float, share: float) -> MemoryBacklog | None:
    """Returns the passages without vectors and the time they need; None without any (pure)."""
    notes = waiting.get(MemorySource.MEMORY.value, 0)
    sessions = waiting.get(MemorySource.SESSIONS.value, 0)
    if not notes + sessions:
        return None
    later = (
        None
        if sessions and not share
        else notes * each + (sessions * each / share if sessions else 0.0)
    )
    return MemoryBacklog(notes, sessions, later)
