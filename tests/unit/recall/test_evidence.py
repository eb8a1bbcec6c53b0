"""The best passages are looked at again for what the question asks."""

from datetime import UTC, datetime

import pytest

from skerry_recall.evidence import Hints, weigh
from skerry_recall.meanings import MEANINGS
from skerry_recall.question import read
from skerry_recall.terms import Words

WORDS = Words()


def day(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def order(question: str, *texts: str, hints: Hints | None = None) -> list[int]:
    """The positions of texts that scored alike, in documents of their own, the best first."""
    count = len(texts)
    asked = read(question, WORDS)
    found = weigh([0.5] * count, range(count), [-1] * count, texts, asked, hints or Hints())
    return sorted(range(count), key=lambda at: -found[at].score)


def test_what_the_named_person_says_is_preferred() -> None:
    texts = ("Bo: I painted the boat.", "Ada: I painted the boat.")
    assert order("What did Ada paint?", *texts) == [1, 0]
    assert order("what did bo paint?", *texts) == [0, 1]


def test_a_passage_of_nobody_loses_nothing_against_one_of_the_named_person() -> None:
    texts = ("Bo: the boat", "The boat was painted.", "Ada: the boat")
    assert order("What did Ada paint?", *texts) == [1, 2, 0]


@pytest.mark.parametrize(
    "label", ["Ada: ", "**Ada:** ", "**Ada**: ", "- ADA: ", "> **Ada:** ", "Ada Byron: ", "Ada : "]
)
def test_a_speaker_is_known_however_the_name_is_written(label: str) -> None:
    texts = ("Bo: the boat: red", f"It was so:\n{label}the boat")
    assert order("What did Ada Byron paint?", *texts) == [1, 0]


def test_two_names_or_none_prefer_nobody() -> None:
    texts = ("Bo: the boat", "Ada: the boat")
    assert order("What did Ada and Bo paint?", *texts) == [0, 1]
    assert order("Who painted?", *texts) == [0, 1]


def test_the_share_that_others_say_counts() -> None:
    texts = ("Bo: the boat is red and large\nAda: yes", "Bo: yes\nAda: the boat is red and large")
    assert order("What did Ada say?", *texts) == [1, 0]


def test_a_question_is_no_answer() -> None:
    assert order("Which colour is the boat?", "Is the boat red?", "The boat is red.") == [1, 0]


def test_a_time_is_preferred_where_one_is_asked_for() -> None:
    texts = ("We painted the boat.", "We painted the boat last week.")
    assert order("When did we paint the boat?", *texts) == [1, 0]
    assert order("How did we paint the boat?", *texts) == [0, 1]


def test_a_passage_of_a_day_that_is_named_is_preferred() -> None:
    dates = [-1, day("2023-04-08"), day("2023-05-08")]
    for question in ("What did we paint in May 2023?", "What did we paint on May 7?"):
        found = weigh([0.5] * 3, range(3), dates, ["a", "b", "c"], read(question, WORDS), Hints())
        assert found[2].score > found[1].score == found[0].score
        assert ("dated", 0.2) in found[2].parts
        assert {name for one in found for name, _ in one.parts} <= MEANINGS.keys()


def test_a_passage_beside_a_better_one_of_its_document_gains() -> None:
    asked = read("boat", WORDS)
    found = weigh([0.9, 0.4, 0.4], [1, 1, 2], [-1] * 3, ["a", "b", "c"], asked, Hints())
    assert found[1].score > found[2].score


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_the_score_stays_between_0_and_1(score: float) -> None:
    asked = read("When and how many times did Ada paint in May 2023?", WORDS)
    texts = ["Bo: why?", "Ada: twice, last week"]
    for one in weigh([score, score], [1, 2], [day("2023-05-08"), -1], texts, asked, Hints()):
        assert 0 <= one.score <= 1
