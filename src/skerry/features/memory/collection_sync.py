"""Makes the search collection equal to the tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skerry.features.memory.index_tables import Tables
from skerry_recall.numbers import Floats, np

if TYPE_CHECKING:  # numpy is loaded at the first search or indexing, not at the start
    from skerry_recall.collection import Collection
    from skerry_recall.passage import Passage

EMBEDDED_WITH: Final = "embedded with"
"""Key in `meta` of the model of the vectors, as `provider/model`."""
SIZE: Final = "vector size"
"""Key in `meta` of the size of the vectors; vectors of another size are not compared."""
STATE: Final = "state"
"""Key in `meta` of the stamp of passages and vectors; each change sets a new stamp."""
VECTORS: Final = 20_000
"""Number of vectors passed at once: 30 MB."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of the tables that a collection lacks, and rows that it has in excess."""

    lacking: set[int]
    removed: frozenset[int]
    shared: int
    """Number of passages in both."""
    bare: set[int]
    """Passages whose vectors the collection lacks."""

    @property
    def size(self) -> int:
        """Returns the number of rows to change."""
        return len(self.lacking) + len(self.removed) + len(self.bare)


def difference(collection: "Collection", tables: Tables) -> Difference:
    """Returns the difference between the collection and the tables."""
    ids, collected, embedded = tables.ids(), collection.ids(), tables.embedded()
    if collection.model == kind(tables.meta(EMBEDDED_WITH) or "", tables.meta(SIZE)):
        embedded -= collection.embedded()
    return Difference(ids - collected, collected - ids, len(collected & ids), embedded)


def is_of(collection: "Collection", tables: Tables) -> bool:
    """Returns whether the collection has the stamp of this state of the tables."""
    state = tables.meta(STATE)
    return state is not None and collection.stamp == state


def equal(
    collection: "Collection",
    tables: Tables,
    lag: Difference,
    paced: "Callable[[Iterable[Passage]], Iterable[Passage]]" = lambda rows: rows,
) -> None:
    """Applies the difference to the collection; `paced` may raise to stop it.

    At the end the collection has the stamp of the tables.
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
    """Returns the label of vectors that can be compared with each other: `model@size`."""
    return f"{model}@{size or ''}" if model else ""


def vectors(rows: Sequence[tuple[int, bytes]]) -> dict[int, Floats]:
    """Returns vectors by passage, from the float32 blobs of the tables; skips damaged ones."""
    size = len(rows[0][1]) // 4 if rows else 0
    return {key: np.frombuffer(blob, "<f4") for key, blob in rows if is_sound(blob, size)}


def is_sound(blob: bytes, size: int) -> bool:
    """Returns whether the blob is a vector of this size: finite and not zero."""
    if not blob or len(blob) != 4 * size:
        return False
    row = np.frombuffer(blob, "<f4")
    return bool(np.isfinite(row).all() and row.any())
