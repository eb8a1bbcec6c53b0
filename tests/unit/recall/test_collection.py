"""A collection of passages finds what is asked."""

from pathlib import Path

import numpy as np

from skerry_recall.collection import Collection
from skerry_recall.passage import Passage


def test_words_find_the_passage_that_has_them(tmp_path: Path) -> None:
    collection = Collection(tmp_path)
    collection.refresh(
        added=[_passage(1, "A red fox"), _passage(2, "A blue bird"), _passage(3, "x")]
    )
    found = collection.scores({"fox": 1.0})
    assert found.id[np.argmax(found.text)] == 1
    assert np.count_nonzero(found.text) == 1


def _passage(number: int, text: str) -> Passage:
    return Passage(number, 1, number - 1, text)
