"""Lists the documents of an index. Blocking."""

from skerry.features.memory.index_tables import Tables
from skerry.model.memory import MemoryFile, MemorySource


def listing(tables: Tables) -> list[MemoryFile]:
    """Returns every document of the index."""
    lacks, encodings = tables.lacks_of_files(), tables.encodings()
    return [
        MemoryFile(
            path=document.path,
            source=source,
            size=document.stamp.size,
            # A conversation is stamped in ms, a file in ns.
            changed_at=document.stamp.mtime
            // (1 if source is MemorySource.SESSIONS else 1_000_000),
            passages=None if document.error else document.chunks,
            vectors=None if document.error else document.chunks - lacks.get(document.id, 0),
            error=document.error or "",
            session=document.session,
            encoding=encodings.get(document.path, ""),
        )
        for source in MemorySource
        for document in tables.documents_of(source).values()
    ]
