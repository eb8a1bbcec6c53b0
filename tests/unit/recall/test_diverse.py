"""Hits do not repeat one another."""

import pytest

from skerry_recall.diverse import distinct, jaccard, marginal, tokens

TEXTS = ["the red boat", "the red boat", "a green house", "the red house"]


def sets(*rows: int) -> list[frozenset[str]]:
    return [tokens(TEXTS[row]) for row in rows]


@pytest.mark.requirement("search-mmr-jaccard")
def test_similarity_is_the_jaccard_index_of_lower_cased_tokens() -> None:
    assert jaccard(tokens("The Red boat"), tokens("the red BOAT!")) == 1
    assert jaccard(tokens("the red boat"), tokens("the red house")) == 0.5
    assert jaccard(tokens("Über"), tokens("über")) == 1
    assert jaccard(tokens(""), tokens("...")) == 1
    assert jaccard(tokens(""), tokens("boat")) == 0


@pytest.mark.requirement("search-mmr-formula")
def test_the_value_is_relevance_less_the_likeness_to_the_nearest_chosen() -> None:
    chosen = list(marginal([1.0, 0.75, 0.5], sets(0, 3, 2), 0.7, 3))
    assert [position for position, _ in chosen] == [0, 1, 2]
    assert [value for _, value in chosen] == pytest.approx(
        [0.7, 0.7 * 0.5 - 0.3 * 0.5, 0.7 * 0.0 - 0.3 * 0.2]
    )


@pytest.mark.requirement("search-mmr-iterative")
def test_each_choice_counts_for_the_next() -> None:
    texts = sets(0, 1, 2)
    assert [at for at, _ in marginal([1.0, 0.9, 0.5], texts, 0.5, 3)] == [0, 2, 1]
    assert [at for at, _ in marginal([1.0, 0.9, 0.5], texts, 1.0, 3)] == [0, 1, 2]
    assert [at for at, _ in marginal([1.0, 0.9, 0.5], texts, 0.5, 1)] == [0]
    assert list(marginal([], [], 0.7, 3)) == []


def test_equal_relevance_is_full_relevance() -> None:
    assert [value for _, value in marginal([0.2, 0.2], sets(0, 2), 0.7, 2)] == [
        pytest.approx(0.7),
        pytest.approx(0.7),
    ]


def test_a_passage_that_repeats_an_earlier_one_is_left_out() -> None:
    assert list(distinct(sets(0, 1, 2, 3), 0.9)) == [0, 2, 3]
    assert list(distinct(sets(0, 1, 2, 3), 0.5)) == [0, 2]


def test_passages_are_read_only_as_far_as_they_are_wanted() -> None:
    read = iter(sets(0, 1, 2))
    assert next(distinct(read, 0.9)) == 0
    assert len(list(read)) == 2
