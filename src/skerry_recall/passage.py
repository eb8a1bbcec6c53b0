"""Passages, in the order in which they appear in their documents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that is found, cited and read as one."""

    id: int
    """Its number in the collection, above 0; never used again for another text."""
    document: int
    """The document in which it stands."""
    place: int
    """Index among the document's passages, from 0. Adjacent ones are its neighbours."""
    text: str
    start_line: int = 1
    """First line in the document, from 1."""
    end_line: int = 1
    """The last line, included."""
    at: int | None = None
    """Milliseconds since 1970 of what it tells, where the document has a date."""
