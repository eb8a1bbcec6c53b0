"""The state of an index for people: its content, and the available search methods."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from skerry.features.memory.index import INDEXED_AT
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.markdown_files import note_of
from skerry.features.memory.missing_vectors import refused_passages
from skerry.model.memory import (
    MemoryBacklog,
    MemoryFallback,
    MemoryMode,
    MemorySource,
    MemoryStatus,
)

EACH_SECONDS: Final = 0.25
"""Estimated seconds per vector, until measured here."""


def filled(status: MemoryStatus, tables: Tables, each: float, share: float) -> MemoryStatus:
    """Returns the state completed from the tables.

    `each` is the time per vector in seconds, `share` the share of a core for the vectors of
    conversations.
    """
    at = tables.meta(INDEXED_AT)
    have, total = tables.vector_counts()
    sources = tables.counts()
    lacks: list[tuple[str, int, int]] = []
    refused: MemoryFallback | None = None
    if status.model:
        refused = refused_passages(tables, f"{status.provider}/{status.model}")
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
        backlog=backlog(
            {source: lack - refused_count for source, lack, refused_count in lacks}, each, share
        ),
        notes=(*status.notes, *failed),
    )


def backlog(waiting: Mapping[str, int], each: float, share: float) -> MemoryBacklog | None:
    """Returns the passages without vectors and the time they need; None without any (pure)."""
    notes = waiting.get(MemorySource.MEMORY.value, 0)
    sessions = waiting.get(MemorySource.SESSIONS.value, 0)
    if not notes + sessions:
        return None
    seconds = (
        None
        if sessions and not share
        else notes * each + (sessions * each / share if sessions else 0.0)
    )
    return MemoryBacklog(notes, sessions, seconds)
