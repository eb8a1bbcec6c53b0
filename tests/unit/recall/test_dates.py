"""The days that a question names."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.dates import Day, moment, named, within

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
    (days,) = named("What did we eat last week?", NOW)
    assert [number for number in range(20, 29) if days.has(date(2026, 2, number))] == list(
        range(23, 29)
    )
    assert days.has(date(2026, 3, 1))
    assert not days.has(date(2026, 3, 2))


def test_a_day_is_that_day_and_no_other() -> None:
    numbers = [number for number in range(1, 32) if Day(2023, 5, 8).has(date(2023, 5, number))]
    assert numbers == [8]
    assert [month for month in range(1, 13) if Day(2023, 5).has(date(2023, month, 1))] == [5]


def test_the_day_of_a_time_is_that_of_its_zone() -> None:
    berlin = timezone(timedelta(hours=2))
    midnight = int(datetime(2023, 5, 8, tzinfo=berlin).timestamp() * 1000)
    assert moment(midnight, berlin) == date(2023, 5, 8)
    assert moment(midnight) == date(2023, 5, 7)
    evening = int(datetime(2026, 3, 2, 23, 30, tzinfo=UTC).timestamp() * 1000)
    assert named("today", evening, berlin) == (Day(2026, 3, 3),)


WEDNESDAY = int(datetime(2026, 3, 4, 9, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("on Thursday", "2026-02-26", "2026-02-26"),
        ("last Friday", "2026-02-27", "2026-02-27"),
        ("last Wednesday", "2026-02-25", "2026-02-25"),
        ("on Wednesday", "2026-03-04", "2026-03-04"),
        ("next Monday", "2026-03-09", "2026-03-09"),
        ("three days ago", "2026-03-01", "2026-03-01"),
        ("the day before yesterday", "2026-03-02", "2026-03-02"),
        ("a year ago today", "2025-03-04", "2025-03-04"),
        ("two weeks ago", "2026-02-15", "2026-02-21"),
        ("last weekend", "2026-02-28", "2026-03-01"),
        ("this week", "2026-03-02", "2026-03-04"),
        ("early October", "2025-10-01", "2025-10-10"),
        ("mid-October", "2025-10-11", "2025-10-20"),
        ("late October", "2025-10-21", "2025-10-31"),
        ("from 3 to 9 May", "2025-05-03", "2025-05-09"),
        ("between 3 and 9 May", "2025-05-03", "2025-05-09"),
        ("between 28 April and 3 May 2025", "2025-04-28", "2025-05-03"),
        ("May 3-9", "2025-05-03", "2025-05-09"),
        ("vorgestern", "2026-03-02", "2026-03-02"),
        ("vor drei Tagen", "2026-03-01", "2026-03-01"),
        ("heute vor einem Jahr", "2025-03-04", "2025-03-04"),
        ("letzten Freitag", "2026-02-27", "2026-02-27"),
        ("am Wochenende", "2026-02-28", "2026-03-01"),
        ("Anfang Oktober", "2025-10-01", "2025-10-10"),
        ("anteayer", "2026-03-02", "2026-03-02"),
        ("hace tres días", "2026-03-01", "2026-03-01"),
        ("el viernes pasado", "2026-02-27", "2026-02-27"),
        ("a mediados de octubre", "2025-10-11", "2025-10-20"),
        ("avant-hier", "2026-03-02", "2026-03-02"),
        ("il y a trois jours", "2026-03-01", "2026-03-01"),
        ("vendredi dernier", "2026-02-27", "2026-02-27"),
        ("fin octobre", "2025-10-21", "2025-10-31"),
        ("l'altro ieri", "2026-03-02", "2026-03-02"),
        ("tre giorni fa", "2026-03-01", "2026-03-01"),
        ("venerdì scorso", "2026-02-27", "2026-02-27"),
        ("anteontem", "2026-03-02", "2026-03-02"),
        ("há três dias", "2026-03-01", "2026-03-01"),
        ("sexta-feira passada", "2026-02-27", "2026-02-27"),
        ("eergisteren", "2026-03-02", "2026-03-02"),
        ("drie dagen geleden", "2026-03-01", "2026-03-01"),
        ("afgelopen vrijdag", "2026-02-27", "2026-02-27"),
        ("eind oktober", "2025-10-21", "2025-10-31"),
    ],
)
def test_days_are_exact_in_all_languages(question: str, first: str, last: str) -> None:
    (days,) = named(f"What was {question}?", WEDNESDAY)
    year = date(2025, 3, 1)
    numbers = [one for n in range(375) if days.has(one := year + timedelta(days=n))]
    assert [numbers[0].isoformat(), numbers[-1].isoformat()] == [first, last]
    assert len(numbers) == (numbers[-1] - numbers[0]).days + 1
    assert days.is_exact == (first == last)
    covered = list(within(days, range(2025, 2027)))
    assert (numbers[0], numbers[-1]) in covered


def test_habits_are_no_days() -> None:
    assert not named("What do we do on Thursdays, and what may we eat?", WEDNESDAY)


@given(st.text(max_size=200), st.integers(0, 2**62))
def test_any_question_can_be_read_at_any_time(question: str, now: int) -> None:
    for one in named(question, now):
        one.has(moment(now))
