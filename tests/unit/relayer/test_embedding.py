"""Vectors of the relayer: long texts cost no more than their beginning."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.vector_space import MAX_PASSAGE_CHARACTERS, MAX_QUESTION_CHARACTERS
from skerry_relayer.embedding import TextVectors


class Counting:
    """An embedder that keeps the lengths of the texts that it gets."""

    model = EmbeddingModel("test", "counting")
    local = True
    bulk = 8
    dims = 4

    def __init__(self) -> None:
        self.lengths: list[int] = []

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        assert kind in Kind
        self.lengths += map(len, texts)
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.mark.parametrize(
    ("kind", "most"),
    [(Kind.QUERY, MAX_QUESTION_CHARACTERS), (Kind.PASSAGE, MAX_PASSAGE_CHARACTERS)],
)
async def test_of_a_long_text_the_beginning_is_embedded(kind: Kind, most: int) -> None:
    embedder = Counting()
    await TextVectors(embedder, 4).of(["a" * 1_048_576, "short"], kind)
    assert embedder.lengths == [most, 5]
