"""Makes what is searched equal to the tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skerry.memory.tables import Tables

if TYPE_CHECKING:  # numpy comes with the first search or the first text, not with a start
    import numpy as np
    from numpy.typing import NDArray

    from skerry_recall.collection import Collection

EMBEDDED_WITH: Final = "embedded with"
"""The note about the model of the vectors, as `provider/model`."""
SIZE: Final = "vector size"
"""The note about how many numbers a vector has; others of the same model are not compared."""
VECTORS: Final = 20_000
"""That are handed over at once: 30 MB."""


def equal(collection: "Collection", tables: Tables) -> None:
    """Make the collection hold the passages of the tables, and their vectors."""
    ids, held = tables.ids(), collection.ids()
    lacking = ids - held
    if lacking or held - ids:
        added = tables.passages(None if lacking == ids else sorted(lacking))
        collection.refresh(added=added, removed=held - ids)
    label = kind(tables.meta(EMBEDDED_WITH) or "", tables.meta(SIZE))
    if collection.model != label:
        collection.refresh(model=label)
    bare = sorted(tables.embedded() - collection.embedded())
    for begin in range(0, len(bare), VECTORS):
        rows = list(tables.vectors(bare[begin : begin + VECTORS]))
        collection.refresh(vectors=vectors(rows), model=label)


def kind(model: str, size: str | int | None) -> str:
    """Return how vectors are named that can be compared with each other."""
    return f"{model}@{size or ''}" if model else ""


def vectors(rows: Sequence[tuple[int, bytes]]) -> "dict[int, NDArray[np.float32]]":
    """Return vectors by passage, of float32 as the tables have them; what rotted is left out."""
    import numpy as np  # noqa: PLC0415 - 20 MB, once there are vectors

    size = len(rows[0][1]) // 4 if rows else 0
    return {key: np.frombuffer(blob, "<f4") for key, blob in rows if is_sound(blob, size)}


def is_sound(blob: bytes, size: int) -> bool:
    """Return whether it is a vector of this size: finite, and with a direction."""
    import numpy as np  # noqa: PLC0415 - 20 MB, once there are vectors

    if not blob or len(blob) != 4 * size:
        return False
    row = np.frombuffer(blob, "<f4")
    return bool(np.isfinite(row).all() and row.any())
