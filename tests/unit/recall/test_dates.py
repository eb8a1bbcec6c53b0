"""The days that a question names."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.dates import Day, moment, named

NOW = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did we eat on 2023-05-08?", [Day(2023, 5, 8)]),
        ("What did we eat in 2023-05?", [Day(2023, 5)]),
        ("What did we eat in 2023?", [Day(2023)]),
        ("What did we eat in May 2023?", [Day(2023, 5)]),
        ("What did we eat in May?", [Day(None, 5)]),
        ("What did we eat on the 8th of May, 2023?", [Day(2023, 5, 8)]),
        ("What did we eat on May 8, 2023?", [Day(2023, 5, 8)]),
        ("in june or on 1 july", [Day(None, 6), Day(None, 7, 1)]),
        ("Was haben wir am 8. Mai 2023 gegessen?", [Day(2023, 5, 8)]),
        ("Was war im Jahr 2023, was im März?", [Day(2023), Day(None, 3)]),
        ("¿Qué comimos el 8 de mayo de 2023?", [Day(2023, 5, 8)]),
        ("Qu'avons-nous mangé le 8 mai 2023 ?", [Day(2023, 5, 8)]),
        ("Que s'est-il passé le 1er mars, et en août ?", [Day(None, 3, 1), Day(None, 8)]),
        ("Cosa abbiamo mangiato l'8 maggio 2023, e nel 2022?", [Day(2023, 5, 8), Day(2022)]),
        ("O que comemos em 8 de março de 2023?", [Day(2023, 3, 8)]),
        ("Wat aten we op 8 mei 2023?", [Day(2023, 5, 8)]),
        ("What did Bruno Mars sing about Mars?", []),
        ("What may we eat, and where do they march?", []),
        ("How many of the 2023 dishes?", []),
    ],
)
def test_dates_are_read(question: str, days: list[Day]) -> None:
    assert list(named(question)) == days


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did we eat yesterday?", [Day(2026, 3, 1)]),
        ("Was haben wir heute gegessen?", [Day(2026, 3, 2)]),
        ("What did we eat last month?", [Day(2026, 2)]),
        ("¿Qué comimos el año pasado?", [Day(2025)]),
        ("Qu'avons-nous mangé hier soir ?", [Day(2026, 3, 1)]),
        ("Was steht hier?", []),
        ("De quoi parlions-nous l'année dernière ?", [Day(2025)]),
        ("Di che cosa parlavamo il mese scorso?", [Day(2026, 2)]),
        ("Do que falamos ontem?", [Day(2026, 3, 1)]),
        ("Waar hadden we het vorig jaar over?", [Day(2025)]),
    ],
)
def test_some_count_from_now(question: str, days: list[Day]) -> None:
    assert list(named(question, NOW)) == days
    assert not named(question)


def test_last_week_is_the_seven_days_before() -> None:
    days = named("What did we eat last week?", NOW)
    assert [(one.month, one.day) for one in days] == [(3, 1), *((2, d) for d in range(28, 22, -1))]


def test_a_day_reaches_as_far_as_a_zone() -> None:
    found = [one for one in range(1, 32) if Day(2023, 5, 8).has(date(2023, 5, one))]
    assert found == [7, 8, 9]
    assert [month for month in range(1, 13) if Day(2023, 5).has(date(2023, month, 1))] == [5]


@given(st.text(max_size=200), st.integers(0, 2**62))
def test_any_question_can_be_read_at_any_time(question: str, now: int) -> None:
    for one in named(question, now):
        one.has(moment(now))
