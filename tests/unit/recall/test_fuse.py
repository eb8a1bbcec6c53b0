"""What words and meaning say becomes one ranking, as each profile defines it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.fuse import (
    BEST,
    CLASSIC,
    DAY_MS,
    OPENCLAW,
    PROFILES,
    SHORT,
    Decay,
    Near,
    Profile,
    Ranked,
    RankOptions,
    decayed,
    rank,
    smoothed,
    top,
)
from skerry_recall.question import read
from skerry_recall.score_descriptions import SCORE_DESCRIPTIONS
from skerry_recall.scores import Scores
from skerry_recall.terms import Words

PLAIN = Profile("plain", 1, 1)


def scores(
    text: Sequence[float],
    vector: Sequence[float] | None = None,
    *,
    document: Sequence[int] | None = None,
    at: Sequence[int] | None = None,
    mask: Sequence[bool] | None = None,
    possible: float = 0.0,
) -> Scores:
    """Rows of one document each, undated, unless the test sets it."""
    count = len(text)
    return Scores(
        text=np.asarray(text, np.float32),
        vector=None if vector is None else np.asarray(vector, np.float32),
        id=np.arange(1, count + 1, dtype=np.int64),
        document=np.asarray(range(count) if document is None else document, np.int32),
        position=np.zeros(count, np.int32),
        at=np.asarray([-1] * count if at is None else at, np.int64),
        length=np.full(count, 10, np.int32),
        possible=possible,
        mask=None if mask is None else np.asarray(mask, np.bool_),
    )


def order(given: Scores, profile: Profile, limit: int = 10, **options: object) -> list[int]:
    """The rows that are found, the best first."""
    return [hit.row for hit in rank(given, profile, limit, RankOptions(**options))]  # type: ignore[arg-type]  # reason: by name


def texts_of(*texts: str) -> Callable[[Sequence[int]], list[str]]:
    """The passages of the rows."""
    return lambda rows: [texts[row] for row in rows]


@pytest.mark.requirement("search-hybrid-weights")
def test_the_profiles_weigh_as_the_seeds_and_the_ruling_say() -> None:
    assert (OPENCLAW.vector_weight, OPENCLAW.text_weight) == (0.7, 0.3)
    assert (CLASSIC.vector_weight, CLASSIC.text_weight) == (0.6, 0.4)
    assert BEST.vector_weight == BEST.text_weight
    assert list(PROFILES) == ["best", "openclaw", "classic"]


@pytest.mark.requirement("search-hybrid-formula")
@pytest.mark.requirement("search-bm25-rank-score")
def test_the_score_is_the_weighted_sum_of_the_cosine_and_the_rank_of_the_words() -> None:
    hits = rank(scores([9.0, 4.0, 0.0], [0.5, 0.9, 0.8]), OPENCLAW, 3, RankOptions())
    assert {hit.row: round(hit.score, 5) for hit in hits} == {
        0: round(0.7 * 0.5 + 0.3 * 1.0, 5),
        1: round(0.7 * 0.9 + 0.3 * 0.5, 5),
        2: round(0.7 * 0.8, 5),
    }


@pytest.mark.requirement("search-pipeline-topk")
def test_the_best_k_by_the_final_score_come_back() -> None:
    given = scores([9.0, 4.0, 0.0], [0.5, 0.9, 0.8])
    assert order(given, OPENCLAW) == [1, 0, 2]
    assert order(given, OPENCLAW, limit=2) == [1, 0]
    assert order(given, OPENCLAW, limit=0) == []


@pytest.mark.requirement("search-weights-normalise")
def test_weights_count_by_their_ratio() -> None:
    given = scores([3.0, 1.0, 0.0], [0.1, 0.9, 0.4])
    small = rank(given, Profile("small", 0.7, 0.3), 3, RankOptions())
    large = rank(given, Profile("large", 7, 3), 3, RankOptions())
    assert [(hit.row, hit.score) for hit in small] == [(hit.row, hit.score) for hit in large]
    assert max(hit.score for hit in large) <= 1


@pytest.mark.requirement("search-union-merge")
@pytest.mark.parametrize("profile", PROFILES.values())
def test_what_one_side_alone_found_stays_in(profile: Profile) -> None:
    given = scores([5.0, 0.0, 0.0], [-0.2, 0.9, 0.8])
    assert set(order(given, profile)) == {0, 1, 2}


def test_only_the_candidates_of_each_side_are_weighed() -> None:
    text = [float(100 - row) for row in range(50)]
    vector = [0.5 + row / 1000 for row in range(50)]
    hits = rank(scores(text, vector), OPENCLAW, 1, RankOptions(explain=True))
    (hit,) = hits
    assert hit.row == 49
    assert dict(hit.explanation)["vector.part"] == pytest.approx(0.7 * 0.549)
    assert "text" not in dict(hit.explanation), "the 50th by words is not among the best four"


def test_without_vectors_the_words_have_all_the_weight() -> None:
    hits = rank(scores([2.0, 0.0, 4.0]), OPENCLAW, 5, RankOptions())
    assert [(hit.row, hit.score) for hit in hits] == [(2, 1.0), (0, 0.5)]
    hits = rank(scores([2.0, 0.0, 4.0]), PLAIN, 5, RankOptions())
    assert [(hit.row, hit.score) for hit in hits] == [(2, 1.0), (0, 0.5)]


def test_nothing_is_found_where_no_word_is_shared_and_no_vector_is_there() -> None:
    for profile in PROFILES.values():
        assert order(scores([0.0, 0.0]), profile) == []
        assert order(scores([]), profile) == []


def test_a_lone_passage_is_found_with_the_full_score() -> None:
    assert rank(scores([0.3], [0.8]), BEST, 5, RankOptions())[0].score == pytest.approx(1)


def test_a_neighbour_in_the_same_document_shares_its_score() -> None:
    document = np.asarray([1, 1, 1, 2], np.int32)
    given = np.asarray([0, 0, 10, 0], np.float32)
    assert smoothed(given, document, Near(0.4, 0.2)).tolist() == [2, 4, 10, 0]


def test_words_that_hardly_any_passage_has_weigh_less() -> None:
    known = scores([2.0, 0.0], [0.1, 0.9], possible=4.0)
    assert rank(known, replace(BEST, hints=None), 2, RankOptions())[0].score == pytest.approx(0.5)
    strange = scores([2.0, 0.0], [0.1, 0.9], possible=50.0)
    hits = rank(strange, BEST, 2, RankOptions())
    assert [hit.row for hit in hits] == [1, 0]
    assert hits[1].score == pytest.approx(0.5 * 2 / (0.4 * 50))


def test_a_long_passage_gets_less_of_its_neighbours() -> None:
    document = np.asarray([1, 1, 1], np.int32)
    given = np.asarray([0, 10, 0], np.float32)
    length = np.asarray([SHORT, 5, 2 * SHORT], np.int32)
    assert smoothed(given, document, Near(0.4), length).tolist() == [4, 10, 0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=30))
def test_smoothing_is_the_sum_that_the_formula_writes(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    document, given = [row[0] for row in rows], [row[1] for row in rows]

    def at(i: int, of: int) -> float:
        return given[i] if 0 <= i < len(rows) and document[i] == document[of] else 0

    expected = [
        at(i, i) + 0.5 * (at(i - 1, i) + at(i + 1, i)) + 0.25 * (at(i - 2, i) + at(i + 2, i))
        for i in range(len(rows))
    ]
    result = smoothed(
        np.asarray(given, np.float32), np.asarray(document, np.int32), Near(0.5, 0.25)
    )
    assert result.tolist() == expected


def test_the_profile_best_finds_the_passage_beside_the_words() -> None:
    given = scores([8.0, 0.0, 0.0, 1.0], document=[1, 1, 2, 3])
    assert order(given, BEST) == [0, 1, 3]
    assert order(given, OPENCLAW) == [0, 3]


def test_what_is_masked_is_not_found_and_does_not_scale_the_others() -> None:
    given = scores([8.0, 2.0, 0.5], [0.9, 0.1, 0.2], mask=[False, True, True])
    for profile in PROFILES.values():
        assert set(order(given, profile)) == {1, 2}
    assert rank(given, PLAIN, 1, RankOptions())[0].score > 0.5
    assert order(scores([8.0], [0.9], mask=[False]), BEST) == []


@pytest.mark.requirement("search-decay-formula")
def test_a_score_halves_with_each_half_life() -> None:
    now = 1_000 * DAY_MS
    at = np.asarray([now, now - 30 * DAY_MS, now - 60 * DAY_MS, now + DAY_MS], np.int64)
    assert decayed(at, Decay(now)).tolist() == pytest.approx([1, 0.5, 0.25, 1])
    assert decayed(at, Decay(now, half_life=60))[2] == pytest.approx(0.5)
    week = np.asarray([now - 7 * DAY_MS], np.int64)
    assert decayed(week, Decay(now))[0] == pytest.approx(math.exp(-math.log(2) / 30 * 7))


@pytest.mark.requirement("search-decay-evergreen")
def test_what_has_no_date_keeps_its_score() -> None:
    now = 1_000 * DAY_MS
    given = scores([4.0, 4.0], at=[now - 300 * DAY_MS, -1])
    hits = rank(given, CLASSIC, 2, RankOptions(decay=Decay(now)))
    assert [hit.row for hit in hits] == [1, 0]
    assert hits[0].score == pytest.approx(0.5), "its rank is the second, whatever its age"


def test_a_floor_keeps_what_is_old_from_being_buried() -> None:
    at = np.asarray([0], np.int64)
    assert decayed(at, Decay(5_000 * DAY_MS, floor=0.7))[0] == pytest.approx(0.7)


@pytest.mark.requirement("search-stage-order")
def test_decay_comes_before_mmr_and_both_are_optional() -> None:
    now = 1_000 * DAY_MS
    given = scores([9.0, 6.0, 3.0], at=[now - 90 * DAY_MS, now, now])
    texts = texts_of("an old plan", "the new plan", "the new plan")
    assert order(given, CLASSIC, texts=texts) == [0, 1, 2]
    assert order(given, CLASSIC, texts=texts, decay=Decay(now)) == [1, 2, 0]
    assert order(given, CLASSIC, texts=texts, decay=Decay(now), mmr=0.5) == [1, 0, 2]
    options = RankOptions(texts=texts, decay=Decay(now), mmr=0.5, explain=True)
    names = [name for name, _ in rank(given, CLASSIC, 1, options)[0].explanation]
    assert names == ["text", "text.rank", "text.part", "decay", "mmr"]
    assert SCORE_DESCRIPTIONS.keys() >= set(names)


def test_the_lowest_score_gives_way_when_nothing_passes() -> None:
    given = scores([5.0, 0.0], [0.0, 0.4])
    assert order(given, OPENCLAW, min_score=0.25) == [0, 1]
    assert order(given, OPENCLAW, min_score=0.29) == [0]
    assert order(given, OPENCLAW, min_score=0.9) == [0], "a lone exact hit is never hidden"
    assert order(scores([0.0], [0.4]), OPENCLAW, min_score=0.9) == []


def test_the_profile_best_drops_a_passage_that_repeats_a_better_one() -> None:
    given = scores([9.0, 8.0, 7.0])
    texts = texts_of("We meet at noon.", "we meet  at noon.", "We meet at the harbour.")
    assert order(given, BEST, texts=texts) == [0, 2]
    assert order(given, OPENCLAW, texts=texts) == [0, 1, 2]


def test_only_who_asks_for_it_gets_an_explanation() -> None:
    given = scores([4.0, 8.0], [0.5, 0.25])
    assert [hit.explanation for hit in rank(given, BEST, 2, RankOptions())] == [(), ()]


def test_the_explanation_names_each_part_and_its_rank() -> None:
    given = scores([4.0, 8.0], [0.5, 0.25], document=[1, 1])
    hit = next(hit for hit in rank(given, BEST, 2, RankOptions(explain=True)) if hit.row == 0)
    parts = dict(hit.explanation)
    assert parts["text"] == 4
    assert parts["text.rank"] == 2
    assert parts["text.near"] == pytest.approx(BEST.text_near.adjacent * 8)
    assert parts["vector.rank"] == 1
    below = 0.25 - (0.5 + 0.25) / 2
    assert parts["vector.near"] == pytest.approx(BEST.vector_near.adjacent * below)
    assert parts["text.part"] + parts["vector.part"] == pytest.approx(hit.score)
    assert parts.keys() <= SCORE_DESCRIPTIONS.keys()


@given(st.integers(0, 5), st.integers(1, 20), st.integers(0, 6000), st.integers(0, 400))
def test_the_highest_scores_are_those_that_sorting_gives(
    seed: int, count: int, rows: int, lowest: int
) -> None:
    given = np.random.default_rng(seed).integers(-lowest, 400, rows).clip(0).astype(np.float32)
    order = np.argsort(-given, kind="stable").tolist()
    assert top(given, count).tolist() == order[:count]
    found = [row for row in order if given[row] > 0]
    assert top(given, count, given > 0).tolist() == found[:count]


def ranked(given: Scores, question: str, texts: Sequence[str], limit: int = 10) -> list[Ranked]:
    """The hits of a question, with all that the profile `best` looks at."""
    asked = read(question, Words(), NOON)
    options = RankOptions(question=asked, texts=texts_of(*texts), scale=(0.8, 0.9))
    return rank(given, BEST, limit, options)


NOON = 1_000 * DAY_MS + DAY_MS // 2


def test_records_that_differ_in_a_number_are_both_found() -> None:
    record = "the quarter had a revenue of {} million with costs of two hundred in all regions " * 2
    texts = [record.format(n, n) for n in (11, 12)]
    assert [hit.row for hit in ranked(scores([9.0, 8.0]), "revenue", texts)] == [0, 1]


def test_of_what_is_repeated_word_for_word_the_newer_is_found() -> None:
    given = scores([9.0, 8.0], at=[DAY_MS, 2 * DAY_MS])
    assert [hit.row for hit in ranked(given, "noon", ["We meet at noon."] * 2)] == [1]


def test_the_first_ten_are_the_same_whatever_is_asked_for() -> None:
    count = 300
    text = np.random.default_rng(7).random(count).tolist()
    texts = [f"User: Is it {n}?" if n % 3 else f"It is {n}." for n in range(count)]
    given = scores(text, text[::-1], document=[n // 5 for n in range(count)])
    few, many = (ranked(given, "is it so", texts, limit) for limit in (10, 100))
    assert [hit.row for hit in few] == [hit.row for hit in many][:10]
    assert [hit.score for hit in few] == [hit.score for hit in many][:10]
    assert [hit.score for hit in many] == sorted((hit.score for hit in many), reverse=True)


@pytest.mark.parametrize("question", ["zzzqqq", "who won the cup"])
def test_what_nothing_is_near_to_has_hardly_a_score(question: str) -> None:
    given = scores([0.0, 0.0], [0.79, 0.78], possible=5.0)
    texts = ["It rained all day.", "The boat is red."]
    assert [hit.score < 0.1 for hit in ranked(given, question, texts)] == [True, True]


def test_some_of_the_words_count_less_beside_a_meaning_than_alone() -> None:
    beside = ranked(scores([2.0, 0.0], [0.78, 0.78], possible=5.0), "boat", ["boat", "rain"])
    alone = ranked(scores([2.0, 0.0], possible=5.0), "boat", ["boat", "rain"])
    assert beside[0].score == pytest.approx(0.4**2)
    assert alone[0].score == pytest.approx(0.4**0.75)


def test_a_score_says_how_well_a_passage_answers_whatever_the_others_do() -> None:
    texts = ["The boat is red.", "It rained all day."]
    poor = ranked(scores([0.5, 0.0], [0.81, 0.78], possible=5.0), "the boat", texts)
    good = ranked(scores([4.5, 0.0], [0.88, 0.78], possible=5.0), "the boat", texts)
    assert poor[0].score == pytest.approx(1 - 0.9 * 0.99)
    assert good[0].score == pytest.approx(1 - 0.19 * 0.2)
    assert good[1].score == pytest.approx(0.01)


def test_the_nearest_of_many_has_to_be_nearer() -> None:
    def score(count: int) -> float:
        given = scores([0] * count, [0.86] + [0.7] * (count - 1))
        return ranked(given, "who has the key?", ["a key"] * count)[0].score

    assert score(2) == score(100)
    assert score(100) > score(1000) > score(10_000)
    assert score(10_000) == score(20_000) > 0.4, "it ends somewhere"


def test_a_passage_of_the_day_comes_first_in_a_large_memory() -> None:
    at = [NOON - (n + 2) * DAY_MS for n in range(400)] + [NOON - DAY_MS]
    texts = ["We did the day's work."] * 400 + ["Rain."]
    given = scores([1.0] * 400 + [0.0], at=at)
    hits = ranked(given, "what did we do yesterday", [f"{n} {one}" for n, one in enumerate(texts)])
    assert hits[0].row == 400
