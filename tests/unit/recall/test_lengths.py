"""How texts are cut and put together so that a model takes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.embed import normalised
from skerry_recall.lengths import ModelLimits, ModelText, joined, requests, split, tokens

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), max_size=8)


@given(TEXTS, st.integers(9, 200))
def test_the_pieces_of_a_text_are_the_text_and_each_is_short_enough(
    texts: list[str], limit: int
) -> None:
    found = split(texts, limit)
    for position, text in enumerate(texts):
        assert "".join(text.text for text in found if text.owner == position) == text.replace(
            "\0", " "
        )
    assert all(tokens(text.text) <= limit for text in found)
    assert {text.owner for text in found} == set(range(len(texts)))


@given(TEXTS, st.integers(9, 100), st.integers(100, 300), st.integers(1, 5))
def test_requests_hold_every_piece_in_order_and_keep_the_limits(
    texts: list[str], limit: int, most: int, count: int
) -> None:
    found = split(texts, limit)
    limits = ModelLimits(limit, most, count)
    asked = list(requests(found, limits))
    assert [text for request in asked for text in request] == found
    assert all(len(request) <= count for request in asked)
    assert all(sum(tokens(text.text) for text in request) <= most for request in asked)


def test_a_text_is_cut_between_words() -> None:
    assert [word.text for word in split(["alpha beta gamma"], 6)] == ["alpha ", "beta gamma"]


def test_what_no_model_can_read_is_replaced() -> None:
    assert split(["a\0b\ud800"], 100) == [ModelText("a b?", 0)]


def test_a_text_in_pieces_gets_their_mean_by_length() -> None:
    parts = [ModelText("aaa", 0), ModelText("b", 0), ModelText("c", 1)]
    rows = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    assert joined(rows, parts, 2) == pytest.approx(normalised([[3, 1], [0, 1]]))


@pytest.mark.parametrize(("text", "count"), [("", 1), ("abcd", 3), ("日本", 5), ("aé", 3)])
def test_tokens_are_counted_with_room_to_spare(text: str, count: int) -> None:
    assert tokens(text) == count
