"""The rules that every vector follows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.embed import (
    EmbeddingAnswerError,
    checked,
    directed,
    has_direction,
    normalised,
)


def _seed(vector: list[float]) -> list[float]:
    """Does what seed 002's sanitizeAndNormalizeEmbedding does, number by number."""
    sound = [v if math.isfinite(v) else 0.0 for v in vector]
    magnitude = math.sqrt(sum(v * v for v in sound))
    return sound if magnitude < 1e-10 else [v / magnitude for v in sound]


@pytest.mark.requirement("search-vector-engine")
@pytest.mark.requirement("embed-l2-normalise")
@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1)
)
def test_a_vector_has_length_one_by_the_seed_s_rule(vector: list[float]) -> None:
    assert normalised(vector) == pytest.approx(
        np.array(_seed(vector), np.float32), rel=1e-6, abs=1e-12
    )


def test_a_vector_of_nothing_stays_as_it_is() -> None:
    assert normalised([1e-11, 0.0]).tolist() == pytest.approx([1e-11, 0.0])
    assert normalised([math.nan, math.inf]).tolist() == [0.0, 0.0]


def test_each_row_of_a_matrix_is_a_vector() -> None:
    rows = normalised([[3.0, 4.0], [0.0, 0.0], [math.nan, 2.0]])
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]))
    assert rows.dtype == np.float32


@pytest.mark.parametrize(
    ("answer", "dims", "text"),
    [
        ([[1.0, 2.0]], None, "1 x 2 numbers for 2 texts"),
        ([[1.0], [2.0], [3.0]], None, "3 x 1 numbers for 2 texts"),
        ([[], []], None, "2 x 0 numbers for 2 texts"),
        ([[1.0, 2.0], [3.0, 4.0]], 3, "vectors of 2 numbers; earlier ones had 3"),
    ],
)
def test_an_answer_of_another_size_is_refused(
    answer: list[list[float]], dims: int | None, text: str
) -> None:
    with pytest.raises(EmbeddingAnswerError, match=text):
        checked(np.array(answer), 2, dims, "it")


def test_a_broken_number_among_sound_ones_counts_as_nothing() -> None:
    assert checked(np.array([[math.nan, 2.0]]), 1, 2, "it").tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("row", [[0.0, 0.0], [math.nan, math.inf], [1e-12, 0.0]])
def test_a_vector_without_a_direction_is_that_text_s_alone(row: list[float]) -> None:
    found = checked(np.array([[1.0, 2.0], row]), 2, None, "it")
    assert [has_direction(one) for one in found] == [True, False]
    with pytest.raises(EmbeddingAnswerError, match="it returned no usable vector"):
        directed(found[1], "it")


def test_a_text_of_which_the_model_knows_no_word_has_no_direction() -> None:
    assert checked(np.zeros((1, 2)), 1, 2, "it").tolist() == [[0.0, 0.0]]
