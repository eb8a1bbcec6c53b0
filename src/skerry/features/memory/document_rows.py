"""Documents and their passages as rows of the index (pure)."""

import json
from collections.abc import Iterable

from skerry.features.memory.documents import Document, DocumentPassage
from skerry_recall.passage import Passage


def columns(document: Document) -> tuple[object, ...]:
    """Returns the row of `files`, without its number."""
    stamp = document.stamp
    return (
        document.path,
        document.source.value,
        document.hash,
        stamp.size,
        stamp.mtime,
        stamp.ctime,
        stamp.settled,
        document.at,
        document.session,
    )


def chunk(number: int, file: int, document: Document, part: DocumentPassage) -> tuple[object, ...]:
    """Returns the row of `chunks`."""
    return (
        number,
        file,
        document.path,
        document.source.value,
        part.position,
        part.content,
        part.start_line,
        part.end_line,
        part.tokens,
        part.hash,
        part.at,
    )


def as_json(ids: Iterable[int]) -> str:
    """Returns the numbers as a JSON array for SQLite's `json_each`."""
    return json.dumps(list(ids))


def passage(number: int, file: int, part: DocumentPassage) -> Passage:
    """Returns the passage for the search collection."""
    return Passage(
        number, file, part.position, part.content, part.start_line, part.end_line, part.at
    )
