"""Passages, in the order in which they appear in their documents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document: the unit of search, citation and reading."""

    id: int
    """Number in the collection, above 0; never used again for another text."""
    document: int
    """Number of its document."""
    position: int
    """Index among the document's passages, from 0. Adjacent passages are its neighbours."""
    text: str
    start_line: int = 1
    """First line in the document, from 1."""
    end_line: int = 1
    """The last line, included."""
    at: int | None = None
    """Date of its subject in ms since 1970; None if the document has no date."""
