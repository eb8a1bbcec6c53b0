"""Hits do not repeat one another."""

import pytest

from skerry_recall.diversity import jaccard, marginal, newer_first, newest, tokens

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


def test_of_equal_texts_the_newest_takes_the_place_of_the_first() -> None:
    assert newest(["a", "b", "a", "b"], [1, 5, 3, 5]) == [(0, 2), (1, 1)]
    assert newest(["a", "a"], [-1, 2]) == [(0, 1)]


def order(texts: list[str], dates: list[int], asked: str, margin: float = 0.1) -> list[int]:
    scores = [0.5 - 0.01 * at for at in range(len(texts))]
    return newer_first([tokens(text) for text in texts], dates, scores, margin, tokens(asked))


def test_of_near_equal_statements_the_newer_comes_first() -> None:
    texts = ["My address is 12 Mill Road.", "Rain.", "My address is now 7 Harbour View."]
    assert order(texts, [1, 2, 3], "my address") == [2, 0, 1]
    assert order(texts, [3, 2, 1], "my address") == [0, 1, 2]
    assert order(texts, [1, 2, 3], "my address", margin=0.01) == [0, 1, 2]


def test_statements_of_other_things_and_without_dates_keep_their_order() -> None:
    texts = ["My address is 12 Mill Road.", "My doctor is Dr. Bell of 12 Mill Road."]
    assert order(texts, [1, 2], "my address") == [0, 1]
    assert order([texts[0]] * 2, [-1, 2], "my address") == [0, 1]
