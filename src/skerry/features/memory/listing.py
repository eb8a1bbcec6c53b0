"""Lists the documents of an index. Blocking."""

from skerry.features.memory.index_tables import Tables
from skerry.model.memory import MemoryFile, MemorySource


def listing(tables: Tables) -> list[MemoryFile]:
    """Returns every document of the index."""
    lacks, encodings = tables.lacks_of_files(), tables.encodings()
    return [
        MemoryFile(
            path=one.path,
            source=source,
            size=one.stamp.size,
            # A conversation is stamped in ms, a file in ns.
            changed_at=one.stamp.mtime // (1 if source is MemorySource.SESSIONS else 1_000_000),
            passages=None if one.error else one.chunks,
            vectors=None if one.error else one.chunks - lacks.get(one.id, 0),
            error=one.error or "",
            session=one.session,
            encoding=encodings.get(one.path, ""),
        )
        for source in MemorySource
        for one in tables.known(source).values()
    ]
