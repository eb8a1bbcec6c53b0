"""Passages of an index that vector search cannot find, with the reasons in words."""

from dataclasses import dataclass
from typing import Final

from skerry.features.memory.collection_sync import EMBEDDED_WITH, SIZE
from skerry.features.memory.index import Index
from skerry.features.memory.index_tables import Tables
from skerry.model.memory import MemoryFallback

MAX_REASONS: Final = 3
"""Reasons that are told."""
REASON: Final = 200
"""Characters of a model's own words."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """Reasons why a query's vector is not compared with that of every passage."""

    meant: bool = True
    """True when it is compared with any."""
    fallback: MemoryFallback | None = None
    """Failure that a person can repair."""
    notes: tuple[str, ...] = ()
    """Conditions that end by themselves."""
    resized: bool = False
    """True when the model returns vectors of another size than the index has."""


def lacking(tables: Tables, label: str, size: int) -> Lacking:
    """Returns the gaps of the index for a query vector of that size and that model."""
    provider, _, model = label.partition("/")
    have, total = tables.vector_counts()
    if not total:
        return Lacking(meant=False)
    ours, before = tables.meta(EMBEDDED_WITH) == label, int(tables.meta(SIZE) or 0)
    if ours and have and size and before != size:
        fallback = MemoryFallback(provider, resized(label, size, before))
        return Lacking(meant=False, fallback=fallback, resized=True)
    refused = without(tables, label) if have < total else None
    if not ours or not have:
        reason = f"0 of {total} passages have a vector so far; ask again later"
        return Lacking(meant=False, fallback=refused or MemoryFallback(provider, reason))
    if have == total:
        return Lacking()
    notes = tables.notes_waiting(provider, model)
    reason = f"{notes} of {total} passages have no vector yet; until then only words are searched."
    return Lacking(fallback=refused, notes=(reason,) if notes else ())


def has_vectors(index: Index) -> bool:
    """Returns whether the meaning of a question can be compared with any passage. Blocks."""
    with index.tables() as tables:
        return tables.vector_counts()[0] > 0


def without(tables: Tables, label: str) -> MemoryFallback | None:
    """Returns how many passages the model gave no vector, and why; None where it gave all."""
    provider, _, model = label.partition("/")
    reasons = tables.refused(provider, model)
    count = sum(number for _, number in reasons)
    counted = "; ".join(f"{number}: {reason[:REASON]}" for reason, number in reasons[:MAX_REASONS])
    are = "passage has" if count == 1 else "passages have"
    message = f"{count} {are} no vector, so words alone find it ({counted})"
    return MemoryFallback(provider, message) if count else None


def resized(label: str, size: int, before: int) -> str:
    """Returns that a server has another model behind the same name."""
    return (
        f"{label} answers vectors of {size} numbers, the index has {before}: its server has another"
        " model behind that name. All is embedded again by itself; until then words answer"
    )
