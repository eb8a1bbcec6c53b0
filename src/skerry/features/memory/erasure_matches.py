"""Finds in the tables of an index what is to be forgotten. Blocking."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from skerry.features.memory.index_tables import Tables
from skerry.features.memory.residue import MOST
from skerry.model.redaction import Redaction


@dataclass(frozen=True, slots=True)
class ErasureMatches:
    """Places of the phrases."""

    documents: set[int]
    """The numbers of the files and conversations."""
    pieces: list[bytes]
    """Texts and vectors that must be in no file afterwards: phrases, statements, vectors. Of very
    many only some, but more than are searched for."""


def erasure_matches(tables: Tables, redaction: Redaction) -> ErasureMatches:
    """Returns the documents that contain the phrases."""
    texts: dict[int, str] = {}
    documents: set[int] = set()
    for key, document, text in tables.suspects(redaction.needles):
        if redaction.may_be_in(text):
            documents.add(document)
            texts[key] = text
    pieces = chain(_words(redaction), _statements(texts, redaction), _meant(tables, texts))
    return ErasureMatches(documents, list(islice(pieces, MOST + 1)))


def _words(redaction: Redaction) -> Iterator[bytes]:
    for needle in redaction.needles:
        yield from {form.encode() for form in (needle, needle.upper(), needle.title())}


def _statements(texts: dict[int, str], redaction: Redaction) -> Iterator[bytes]:
    for text in texts.values():
        for begin, end in redaction.spans(text):
            yield text[begin:end].encode("utf-8", "surrogatepass")


def _meant(tables: Tables, texts: dict[int, str]) -> Iterator[bytes]:
    for _, blob in tables.vectors(texts):
        yield blob
