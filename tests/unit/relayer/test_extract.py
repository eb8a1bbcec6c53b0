"""Extraction by rules: statements become facts, and their days get dates."""

from datetime import UTC, date, datetime

import pytest

from skerry_recall.statements import dated, importance, statements
from skerry_relayer.extract import MAX_FACTS, Rules

WEDNESDAY = date(2026, 5, 20)
AT = datetime(2026, 5, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sentence", "resolved"),
    [
        ("I met Tom last Friday.", "I met Tom on Friday, 15 May 2026 (2026-05-15)."),
        ("Yesterday I ran.", "On Tuesday, 19 May 2026 (2026-05-19) I ran."),
        ("I fly next Friday", "I fly on Friday, 22 May 2026 (2026-05-22)"),
        ("I start tomorrow", "I start on Thursday, 21 May 2026 (2026-05-21)"),
        ("We moved last month", "We moved in April 2026 (2026-04)"),
        ("Last year I ran", "In 2025 I ran"),
        (
            "I was ill over the weekend",
            "I was ill between 16 May 2026 (2026-05-16) and 17 May 2026 (2026-05-17)",
        ),
        (
            "It is next week",
            "It is between 25 May 2026 (2026-05-25) and 31 May 2026 (2026-05-31)",
        ),
        ("I do yoga on Friday", "I do yoga on Friday"),
        ("I will do it soon", "I will do it soon"),
        ("Gestern war ich krank", "On Tuesday, 19 May 2026 (2026-05-19) war ich krank"),
    ],
)
def test_days_that_count_from_the_conversation_get_dates(sentence: str, resolved: str) -> None:
    assert dated(sentence, WEDNESDAY) == resolved


def test_statements_are_taken_and_talk_is_not() -> None:
    text = (
        "1. I prefer TypeScript for my backend services\n\n"
        "2. Noted, you prefer TypeScript. Which editor do you use?\n"
        "- Hello there my friend\nPlease write a poem about it.\nok thanks\n"
        "User: My daughter is called Ada. <b>Bold</b> people live in Oslo."
    )
    assert list(statements(text)) == [
        "I prefer TypeScript for my backend services",
        "My daughter is called Ada.",
        "Bold people live in Oslo.",
    ]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Please remember: I am allergic to peanuts and I live in Lisbon.",
            ["I am allergic to peanuts.", "I live in Lisbon."],
        ),
        (
            "I prefer tea, and my dentist is Doctor Vogel; and I ride a bike.",
            ["I prefer tea.", "My dentist is Doctor Vogel.", "I ride a bike."],
        ),
        ("Ich wohne in Bonn und mein Hund bellt.", ["Ich wohne in Bonn.", "Mein Hund bellt."]),
        ("My wife Ada and I went to Rome.", ["My wife Ada and I went to Rome."]),
        ("I like tea, and my job.", ["I like tea, and my job."]),
        ("remember that the gate code is 4711", ["The gate code is 4711"]),
        (
            "Bitte merk dir, dass der Müll am Dienstag geholt wird.",
            ["Der Müll am Dienstag geholt wird."],
        ),
        ("Hello, my name is Ada.", ["My name is Ada."]),
        ("Hi Skerry! I moved to Oslo.", ["I moved to Oslo."]),
        ("I want you to answer in German.", ["I want you to answer in German."]),
        ("The release is on Friday.", ["The release is on Friday."]),
        ("Please remember to be kind?", []),
        ("I'm here to assist you in any way I can.", []),
        ("You are allergic to peanuts and live in Lisbon.", []),
        ("I've been trained on a vast range of data.", []),
        ("A tuple cannot be changed, and a list can.", []),
        ("The rules of the kitchen are as diverse as the seasons.", []),
    ],
)
def test_what_people_say_of_themselves_is_taken_and_what_assistants_say_is_not(
    text: str, facts: list[str]
) -> None:
    assert list(statements(text)) == facts


async def test_known_and_repeated_facts_are_left_out_and_times_stay_without_a_time() -> None:
    text = "I live in Oslo now. I LIVE in Oslo, now! I ran yesterday morning."
    facts = await Rules().extract(text, None, ["I ran: yesterday morning"])
    assert [fact.text for fact in facts] == ["I live in Oslo now."]
    facts = await Rules().extract("I live in Oslo. " * 3 + "I ran yesterday far.", AT, [])
    assert "2026-05-19" in facts[-1].text
    many = " ".join(f"I own {number} boats." for number in range(50))
    assert len(await Rules().extract(many, AT, [])) == MAX_FACTS


@pytest.mark.parametrize(
    ("sentence", "weight"),
    [("I am allergic to nuts", 0.9), ("I like my bike", 0.5), ("It was nice", 0.2)],
)
def test_what_matters_weighs_more(sentence: str, weight: float) -> None:
    assert importance(sentence) == weight


async def test_an_answer_without_a_model_names_the_memories() -> None:
    assert await Rules().answer("?", ["I drink tea"]) == "From your memories:\n- I drink tea"
    assert await Rules().answer("?", []) == "No memory answers this question."
