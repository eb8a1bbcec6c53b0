"""The nearest vectors are found without comparing all."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry_recall.collection import Collection
from skerry_recall.numbers import Floats, Longs
from skerry_recall.passage import Passage
from skerry_recall.vectors import SMALL, VectorStore, hamming, pack

MANY = 20_000


@pytest.mark.parametrize("dimensions", [1, 7, 64, 384])
def test_different_bits_are_counted(dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    rows = np.packbits(random.random((500, dimensions)) > 0.5, axis=1)
    question = np.packbits(random.random(dimensions) > 0.5)
    assert hamming(question, rows).tolist() == [
        sum((a ^ b).bit_count() for a, b in zip(question.tolist(), row, strict=True))
        for row in rows.tolist()
    ]


def test_of_a_few_every_cosine_is_exact() -> None:
    found, questions = _clustered(SMALL)
    packed = pack(np.arange(SMALL), found)
    assert packed.cosines(questions[0]) == pytest.approx(found @ questions[0], abs=1e-6)


def test_of_many_the_ten_nearest_are_found() -> None:
    found, questions = _clustered(MANY)
    packed = _on_disk(found)
    hits = 0
    for question in questions:
        exact = found @ question
        cosines = packed.cosines(question)
        best = np.argsort(-cosines)[:10]
        hits += len(set(best.tolist()) & set(np.argsort(-exact)[:10].tolist()))
        assert cosines[best] == pytest.approx(exact[best], abs=1e-5)
    assert hits / (10 * len(questions)) >= 0.995


@pytest.mark.requirement("search-vector-engine")
def test_the_others_are_estimated_without_bias() -> None:
    found, questions = _clustered(MANY)
    packed = _on_disk(found)
    for question in questions[:5]:
        exact, cosines = found @ question, packed.cosines(question)
        assert np.corrcoef(exact, cosines)[0, 1] > 0.5
        assert abs(float((exact - cosines).mean())) < 0.02


def test_vectors_that_are_all_the_same_are_alike() -> None:
    same = np.full((MANY, 16), 0.25, np.float32)
    assert _on_disk(same).cosines(same[0]) == pytest.approx(np.ones(MANY), abs=0.01)


def test_a_large_collection_reads_its_vectors_from_the_disk(tmp_path: Path) -> None:
    found, questions = _clustered(SMALL + 100)
    collection = Collection(tmp_path)
    collection.refresh(
        added=[Passage(number + 1, 1, number, "x") for number in range(len(found))],
        vectors={one + 1: vector for one, vector in enumerate(found)},
    )
    collection.refresh(removed=[1], vectors={2: -found[1]})
    collection.compact()
    scores = collection.scores({}, found[700])
    assert scores.vector is not None
    best = int(np.argmax(scores.vector))
    assert (scores.id[best], scores.vector[best]) == (701, pytest.approx(1, abs=1e-5))
    again = Collection(tmp_path).scores({}, questions[0])
    assert again.vector is not None
    exact = found[1:] @ questions[0]
    exact[0] *= -1
    assert again.vector.max() == pytest.approx(exact.max(), abs=1e-5)


class _Rows:
    def __init__(self, rows: Floats) -> None:
        self._rows = rows

    def take(self, rows: Longs) -> Floats:
        return np.take(self._rows, rows, axis=0)


def _on_disk(found: Floats) -> VectorStore:
    """Returns the vectors as a large collection has them."""
    packed = pack(np.arange(len(found)), found)
    return VectorStore(**{**packed.arrays(), "exact": _Rows(found)})  # type: ignore[arg-type]  # as on disk


def _clustered(count: int) -> tuple[Floats, Floats]:
    """Returns vectors around 200 centres, off the origin as those of models, and questions."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((200, 128)) + 2 * random.standard_normal(128)
    rows = centres[random.integers(0, 200, count)] + random.standard_normal((count, 128))
    asked = rows[random.integers(0, count, 40)] + 0.5 * random.standard_normal((40, 128))
    return _unit(rows), _unit(asked)


def _unit(rows: NDArray[np.float64]) -> Floats:
    found: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found
