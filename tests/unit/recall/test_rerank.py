"""The best passages are ranked again by the words of the question."""

from datetime import UTC, datetime

import pytest

from skerry_recall.question import read
from skerry_recall.rerank import Hints, weigh
from skerry_recall.score_descriptions import SCORE_DESCRIPTIONS
from skerry_recall.terms import Words

WORDS = Words()
TALK = ("Ada: We were at the lake.", "Bo: We were at the fair.")
"""What makes them speakers."""


def day(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def order(question: str, *texts: str, hints: Hints | None = None) -> list[int]:
    """The positions of texts that scored alike, in documents of their own, the best first."""
    count = len(texts)
    asked = read(question, WORDS)
    found = weigh([0.5] * count, range(count), [-1] * count, texts, asked, hints or Hints())
    return sorted(range(count), key=lambda at: -found[at].score)


def test_what_the_named_person_says_is_preferred() -> None:
    texts = ("Bo: I painted the boat.", "Ada: I painted the boat.", *TALK)
    assert order("What did Ada paint?", *texts)[:2] == [1, 2]
    assert order("what did bo paint?", *texts)[:2] == [0, 3]


def test_a_passage_of_nobody_loses_nothing_against_one_of_the_named_person() -> None:
    texts = ("Bo: I like the boat.", "The boat was painted.", "Ada: I like the boat.", *TALK)
    assert order("What did Ada paint?", *texts) == [1, 2, 3, 0, 4]


@pytest.mark.parametrize(
    "label", ["Ada: ", "**Ada:** ", "**Ada**: ", "- ADA: ", "> **Ada:** ", "Ada Byron: ", "Ada : "]
)
def test_a_speaker_is_known_however_the_name_is_written(label: str) -> None:
    text = f"{label}I like the boat.\n{label}It is a fine boat.\n"
    texts = ("Bo: the boat: it is red.\nBo: I like it so.", f"It was so:\n{text}")
    assert order("What did Ada Byron paint?", *texts) == [1, 0]


def test_two_names_or_none_prefer_nobody() -> None:
    texts = ("Bo: the boat", "Ada: the boat")
    assert order("What did Ada and Bo paint?", *texts) == [0, 1]
    assert order("Who painted?", *texts) == [0, 1]


def test_the_share_that_others_say_counts() -> None:
    long = "the boat is red and large, I think."
    texts = (f"Bo: {long}\nAda: I agree, yes.", f"Bo: I agree, yes.\nAda: {long}")
    assert order("What did Ada say?", *texts) == [1, 0]


def test_a_field_is_no_speaker() -> None:
    cards = [
        f"# {name}\nPhone: 0151 22{n}\nAddress: {n} Mill Road, Leeds\nPhone: 030 {n}"
        for n, name in enumerate(("Ben", "Carla"))
    ]
    diary = "Called Ben on the phone, then wrote to Carla about her address."
    question = read("phone Ben", WORDS)
    found = weigh([0.5] * 3, range(3), [-1] * 3, [*cards, diary], question, Hints())
    assert not [
        name for weighed in found for name, amount in weighed.parts if name == "said" and amount
    ]


def test_the_echo_of_a_question_counts_less_than_what_answers() -> None:
    echo = "User: Where is the key of the shed?\n\nAssistant: I do not know."
    answer = "User: Where is the key of the shed?\n\nAssistant: The key of the shed is here."
    note = "The key of the shed is under the third flowerpot."
    assert order("where is the key of the shed", echo, answer, note)[-1] == 0
    assert order("who painted the boat", echo, note) == [0, 1]


def test_a_question_is_no_answer() -> None:
    assert order("Which colour is the boat?", "Is the boat red?", "The boat is red.") == [1, 0]


def test_a_time_is_preferred_where_one_is_asked_for() -> None:
    texts = ("We painted the boat.", "We painted the boat last week.")
    assert order("When did we paint the boat?", *texts) == [1, 0]
    assert order("How did we paint the boat?", *texts) == [0, 1]


def test_a_passage_of_a_day_that_is_named_is_preferred() -> None:
    dates = [-1, day("2023-04-08"), day("2023-05-08")]
    for question, amount in (
        ("What did we paint in May 2023?", Hints().dated),
        ("What did we paint in early May?", Hints().days),
        ("What did we paint on May 8?", Hints().day),
    ):
        found = weigh([0.5] * 3, range(3), dates, ["a", "b", "c"], read(question, WORDS), Hints())
        assert found[2].score > found[1].score == found[0].score
        assert ("dated", amount) in found[2].parts
        assert {name for weighed in found for name, _ in weighed.parts} <= SCORE_DESCRIPTIONS.keys()


def test_a_passage_beside_a_better_one_of_its_document_gains() -> None:
    question = read("boat", WORDS)
    found = weigh([0.9, 0.4, 0.4], [1, 1, 2], [-1] * 3, ["a", "b", "c"], question, Hints())
    assert found[1].score > found[2].score


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_the_score_stays_between_0_and_1(score: float) -> None:
    question = read("When and how many times did Ada paint in May 2023?", WORDS)
    texts = ["Bo: why?", "Ada: twice, last week"]
    for weighed in weigh([score, score], [1, 2], [day("2023-05-08"), -1], texts, question, Hints()):
        assert 0 <= weighed.score <= 1


def test_a_passage_whose_text_names_the_day_is_preferred_too() -> None:
    question = read("What did we paint on 8 May 2023?", WORDS)
    texts = ["8 May 2023: the boat", "9 May 2023: the boat"]
    found = weigh([0.5] * 2, range(2), [-1] * 2, texts, question, Hints())
    assert found[0].score > found[1].score
