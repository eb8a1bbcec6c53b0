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
        part.place,
        part.content,
        part.start_line,
        part.end_line,
        part.tokens,
        part.hash,
        part.at,
    )


def as_json(ids: Iterable[int]) -> str:
    """Returns numbers as SQLite's `json_each` takes them."""
    return json.dumps(list(ids))


def passage(number: int, file: int, part: DocumentPassage) -> Passage:
    """Returns the passage as it is searched."""
    return Passage(number, file, part.place, part.content, part.start_line, part.end_line, part.at)
