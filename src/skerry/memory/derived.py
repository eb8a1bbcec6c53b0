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
VECTORS: Final = 20_000
"""That are handed over at once: 30 MB."""


def equal(collection: "Collection", tables: Tables) -> None:
    """Make the collection hold the passages of the tables, and their vectors."""
    ids, held = tables.ids(), collection.ids()
    lacking = ids - held
    if lacking or held - ids:
        added = tables.passages(None if lacking == ids else sorted(lacking))
        collection.refresh(added=added, removed=held - ids)
    label = tables.meta(EMBEDDED_WITH) or ""
    if collection.model != label:
        collection.refresh(model=label)
    bare = sorted(tables.embedded() - collection.embedded())
    for begin in range(0, len(bare), VECTORS):
        rows = list(tables.vectors(bare[begin : begin + VECTORS]))
        collection.refresh(vectors=vectors(rows), model=label)


def vectors(rows: Sequence[tuple[int, bytes]]) -> "dict[int, NDArray[np.float32]]":
    """Return vectors by passage, of float32 as the tables have them."""
    import numpy as np  # noqa: PLC0415 - 20 MB, once there are vectors

    return {key: np.frombuffer(blob, "<f4") for key, blob in rows}
