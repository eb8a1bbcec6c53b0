"""Finds the text to be erased in the tables of an index. Blocking."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from skerry.features.memory.index_tables import Tables
from skerry.features.memory.residue import MAX_FRAGMENTS
from skerry.model.redaction import Redaction


@dataclass(frozen=True, slots=True)
class ErasureMatches:
    """Rows and texts that contain the phrases."""

    documents: set[int]
    """Row numbers of the files and conversations."""
    fragments: list[bytes]
    """Phrases, statements and vectors that must be in no file afterwards; at most
    `MAX_FRAGMENTS` + 1."""


def erasure_matches(tables: Tables, redaction: Redaction) -> ErasureMatches:
    """Returns the documents that contain the phrases."""
    texts: dict[int, str] = {}
    documents: set[int] = set()
    for key, document, text in tables.suspects(redaction.needles):
        if redaction.may_be_in(text):
            documents.add(document)
            texts[key] = text
    fragments = chain(_words(redaction), _statements(texts, redaction), _vectors(tables, texts))
    return ErasureMatches(documents, list(islice(fragments, MAX_FRAGMENTS + 1)))


def _words(redaction: Redaction) -> Iterator[bytes]:
    for needle in redaction.needles:
        yield from {form.encode() for form in (needle, needle.upper(), needle.title())}


def _statements(texts: dict[int, str], redaction: Redaction) -> Iterator[bytes]:
    for text in texts.values():
        for begin, end in redaction.spans(text):
            yield text[begin:end].encode("utf-8", "surrogatepass")


def _vectors(tables: Tables, texts: dict[int, str]) -> Iterator[bytes]:
    for _, blob in tables.vectors(texts):
        yield blob
