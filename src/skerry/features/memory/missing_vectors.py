"""Passages of an index that vector search cannot find, with the reasons for people."""

from dataclasses import dataclass
from typing import Final

from skerry.features.memory.collection_sync import EMBEDDED_WITH, SIZE
from skerry.features.memory.index import Index
from skerry.features.memory.index_tables import Tables
from skerry.model.memory import MemoryFallback

MAX_REASONS: Final = 3
"""Limit on the reported reasons."""
REASON: Final = 200
"""Limit on the characters of a model's reason."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """Reasons why a query's vector is not compared with all passages."""

    is_compared: bool = True
    """True when the query's vector is compared with at least one passage."""
    fallback: MemoryFallback | None = None
    """Failure that a person can repair."""
    notes: tuple[str, ...] = ()
    """Conditions that end without action."""
    resized: bool = False
    """True when the model returns vectors of another size than the index has."""


def lacking(tables: Tables, label: str, size: int) -> Lacking:
    """Returns why a query vector of that model and size is not compared with all passages."""
    provider, _, model = label.partition("/")
    have, total = tables.vector_counts()
    if not total:
        return Lacking(is_compared=False)
    is_current, before = tables.meta(EMBEDDED_WITH) == label, int(tables.meta(SIZE) or 0)
    if is_current and have and size and before != size:
        fallback = MemoryFallback(provider, resized(label, size, before))
        return Lacking(is_compared=False, fallback=fallback, resized=True)
    refused = refused_passages(tables, label) if have < total else None
    if not is_current or not have:
        reason = f"0 of {total} passages have a vector so far; ask again later"
        return Lacking(is_compared=False, fallback=refused or MemoryFallback(provider, reason))
    if have == total:
        return Lacking()
    notes = tables.notes_waiting(provider, model)
    reason = f"{notes} of {total} passages have no vector yet; until then only words are searched."
    return Lacking(fallback=refused, notes=(reason,) if notes else ())


def has_vectors(index: Index) -> bool:
    """Returns whether any passage has a vector. Blocks."""
    with index.tables() as tables:
        return tables.vector_counts()[0] > 0


def refused_passages(tables: Tables, label: str) -> MemoryFallback | None:
    """Returns the number of passages that the model refused, and the reasons; None without any."""
    provider, _, model = label.partition("/")
    reasons = tables.refused(provider, model)
    count = sum(number for _, number in reasons)
    counted = "; ".join(f"{number}: {reason[:REASON]}" for reason, number in reasons[:MAX_REASONS])
    counted_passages = f"{count} passage has" if count == 1 else f"{count} passages have"
    message = f"{counted_passages} no vector and can only be found by words ({counted})"
    return MemoryFallback(provider, message) if count else None


def resized(label: str, size: int, before: int) -> str:
    """Returns the message that a server has another model under the same name."""
    return (
        f"{label} returns vectors of {size} numbers, the index has {before}: its server has another"
        " model under that name. All passages are embedded again automatically; until then only"
        " words are searched"
    )
