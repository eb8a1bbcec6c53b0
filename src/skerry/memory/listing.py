"""Lists the documents of an index. Blocking."""

from skerry.memory.tables import Tables
from skerry.model.memory import MemoryFile, MemorySource


def listing(tables: Tables) -> list[MemoryFile]:
    """Return every document of the tables."""
    known = {source: tables.known(source).values() for source in MemorySource}
    return [
        MemoryFile(
            path=one.path,
            source=source,
            size=one.stamp.size,
            changed_at=one.stamp.mtime // 1_000_000,
            passages=None if one.error else one.chunks,
            error=one.error or "",
            session=one.session,
        )
        for source, found in known.items()
        for one in found
    ]
