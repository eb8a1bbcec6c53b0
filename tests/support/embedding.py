"""An embedding model for tests of the relayer: words counted, no process."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skerry_recall.embed import EmbeddingModel, Kind, normalised


class Words:
    """Vectors of words: texts that share some are near each other."""

    model = EmbeddingModel("local", "words")
    local = True
    bulk = 32
    dims: int | None = 384

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Returns one row a text."""
        del kind
        rows = np.zeros((len(texts), 384))
        for position, text in enumerate(texts):
            for word in text.lower().replace(".", " ").split():
                digest = hashlib.sha256(word.encode()).digest()
                rows[position, int.from_bytes(digest[:4], "big") % 384] += 1
        return normalised(rows)
