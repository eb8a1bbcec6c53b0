"""Makes what is searched equal to the tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skerry.features.memory.index_tables import Tables
from skerry_recall.numbers import Floats, np

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    from skerry_recall.collection import Collection
    from skerry_recall.passage import Passage

EMBEDDED_WITH: Final = "embedded with"
"""The note about the model of the vectors, as `provider/model`."""
SIZE: Final = "vector size"
"""The note about how many numbers a vector has; others of the same model are not compared."""
STATE: Final = "state"
"""The note that names what passages and vectors there are; each change gives it another name."""
VECTORS: Final = 20_000
"""Number of vectors passed at once: 30 MB."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that a collection lacks of the tables, and those it has in excess."""

    lacking: set[int]
    removed: frozenset[int]
    shared: int
    """Passages that both have."""
    bare: set[int]
    """Passages whose vectors it lacks."""

    @property
    def size(self) -> int:
        """Returns how much there is to do."""
        return len(self.lacking) + len(self.removed) + len(self.bare)


def difference(collection: "Collection", tables: Tables) -> Difference:
    """Returns in what the collection differs from the tables."""
    ids, collected, embedded = tables.ids(), collection.ids(), tables.embedded()
    if collection.model == kind(tables.meta(EMBEDDED_WITH) or "", tables.meta(SIZE)):
        embedded -= collection.embedded()
    return Difference(ids - collected, collected - ids, len(collected & ids), embedded)


def is_of(collection: "Collection", tables: Tables) -> bool:
    """Returns whether the collection was brought to this state of the tables, as its stamp says."""
    state = tables.meta(STATE)
    return state is not None and collection.stamp == state


def equal(
    collection: "Collection",
    tables: Tables,
    lag: Difference,
    paced: "Callable[[Iterable[Passage]], Iterable[Passage]]" = lambda rows: rows,
) -> None:
    """Brings into the collection in what it differs from the tables; `paced` may raise to end it.

    At the end it has the stamp of the tables' state.
    """
    if lag.lacking or lag.removed:
        added = tables.passages(sorted(lag.lacking) if lag.shared else None)
        collection.refresh(added=paced(added), removed=lag.removed)
    label = kind(tables.meta(EMBEDDED_WITH) or "", tables.meta(SIZE))
    if collection.model != label:
        collection.refresh(model=label)
    bare = sorted(lag.bare)
    for begin in range(0, len(bare), VECTORS):
        for _ in paced(()):
            pass
        rows = list(tables.vectors(bare[begin : begin + VECTORS]))
        collection.refresh(vectors=vectors(rows), model=label)
    collection.mark(tables.meta(STATE) or "")


def kind(model: str, size: str | int | None) -> str:
    """Returns how vectors are named that can be compared with each other."""
    return f"{model}@{size or ''}" if model else ""


def vectors(rows: Sequence[tuple[int, bytes]]) -> dict[int, Floats]:
    """Returns vectors by passage, of float32 as the tables have them; what rotted is left out."""
    size = len(rows[0][1]) // 4 if rows else 0
    return {key: np.frombuffer(blob, "<f4") for key, blob in rows if is_sound(blob, size)}


def is_sound(blob: bytes, size: int) -> bool:
    """Returns whether it is a vector of this size: finite, and with a direction."""
    if not blob or len(blob) != 4 * size:
        return False
    row = np.frombuffer(blob, "<f4")
    return bool(np.isfinite(row).all() and row.any())
