"""Inspects an agent's index, also while a gateway uses it. Blocks; changes nothing."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from skerry.features.memory.collection_sync import EMBEDDED_WITH
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.markdown_files import note_of, scan
from skerry.infra.sqlite import connect, is_empty, problems
from skerry.model.memory import MemorySource


@dataclass(frozen=True, slots=True)
class Inspection:
    """State of an index."""

    damage: str = ""
    """Damage of the file; the other fields are then unset."""
    files: int = 0
    passages: int = 0
    vectors: int = 0
    model: str = ""
    """Model of the vectors, as `provider/model`."""
    refused: Sequence[tuple[str, int]] = ()
    """Reasons why the model refused a vector, with the number of passages for each."""
    lacks: Sequence[tuple[str, int, int]] = ()
    """Each source with its numbers of passages without a vector, and of refused ones."""
    encodings: str = ""
    """Files that are not UTF-8, for people; empty if all are."""
    failed: Sequence[tuple[str, str]] = ()
    """Files that cannot be indexed, each with the reason."""
    stale: Sequence[tuple[str, int]] = ()
    """Files whose present state is not indexed, and the time of their change in ms since 1970; 0
    for deleted ones."""


def look(path: Path, paths: MemoryPaths, *, whole: bool) -> Inspection | None:
    """Inspects the index at `path`; returns None if there is none yet.

    `whole` checks all of it for damage: some seconds for 100,000 passages.
    """
    if not path.exists():
        return None
    try:
        damage = problems(path, whole=True) if whole else []
        if damage:
            return Inspection(damage[0])
        with closing(connect(path, read_only=True)) as connection:
            if is_empty(connection):
                return None  # the disk was full before its tables were created
            return _read(Tables(connection), paths)
    except sqlite3.Error as error:
        return Inspection(str(error))


def _read(tables: Tables, paths: MemoryPaths) -> Inspection:
    documents, present = tables.documents_of(MemorySource.MEMORY), scan(paths).stamps
    stale = [
        (name, stamp.mtime // 1_000_000)
        for name, stamp in present.items()
        if name not in documents
        or (documents[name].stamp.size, documents[name].stamp.mtime) != (stamp.size, stamp.mtime)
    ]
    removed = [
        (name, 0)
        for name, document in documents.items()
        if name not in present and not document.error
    ]
    vectors, passages = tables.vector_counts()
    label = tables.meta(EMBEDDED_WITH) or ""
    provider, _, model = label.partition("/")
    return Inspection(
        files=sum(files for _, files, _ in tables.counts()),
        passages=passages,
        vectors=vectors,
        model=label,
        refused=tables.refused(provider, model),
        lacks=tables.lacks(provider, model),
        encodings=note_of(tables.encodings()),
        failed=tables.failed(),
        stale=sorted([*stale, *removed]),
    )
