"""Which words are indexed and looked for."""

import pytest

from skerry_recall.terms import MAX_TERM, Words, terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The dogs were RUNNING", ["the", "dog", "were", "run"]),
        ("Café Straße", ["cafe", "strass"]),
        ("ERR_CONN_42", ["err", "conn", "42", "err_conn_42"]),
        ("foo_bar.py", ["foo", "bar", "py", "foo_bar.py"]),
        ("v1.22.0", ["v1", "22", "0", "v1.22.0"]),
        ("2026-05-08", ["2026", "05", "08", "2026-05-08"]),
        ("HttpClient", ["httpclient", "http", "client"]),
        ("Caroline's", ["carolin"]),
        ("我们去公园", ["我们", "们去", "去公", "公园"]),
        ("の", ["の"]),
        ("... !?", []),
    ],
)
def test_a_text_is_its_terms(text: str, found: list[str]) -> None:
    assert terms(text) == found


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the name of my dog?", ["name", "dog"]),
        ("who are you", ["who", "are", "you"]),
        ("Dogs, dog and DOG", ["dog"]),
        ("Где находится библиотека?", ["наход", "библиотек"]),
        ("أين المكتبة", ["مكتب"]),
        ("???", []),
    ],
)
def test_a_question_is_its_content_words(question: str, found: list[str]) -> None:
    assert Words().content(question) == found


def test_a_question_finds_an_identifier_by_a_part() -> None:
    assert set(Words().content("conn")) < set(terms("ERR_CONN_42"))


def test_a_term_has_a_limit() -> None:
    assert max(map(len, terms("x" * 500 + " " + "a_" * 300))) <= MAX_TERM


def test_more_words_than_are_remembered_are_still_right() -> None:
    words = Words()
    for number in range(0, 250_000, 50):
        words.terms(" ".join(f"x{one}" for one in range(number, number + 50)))
    assert words.terms("x7 dogs") == ["x7", "dog"]


@pytest.mark.parametrize(
    ("text", "question", "shared"),
    [
        ("Das ist eines der alten Häuser.", "Was ist mit dem Haus?", "haus~german"),
        ("Los niños jugaron en la calle.", "¿Quién es el que jugaba?", "jug~spanish"),
    ],
)
def test_a_word_is_found_in_another_form_of_its_language(
    text: str, question: str, shared: str
) -> None:
    assert shared in set(Words().content(question)) & set(terms(text))


@pytest.mark.parametrize("word", ["Häuser", "niños", "ERR_CONN_42", "Straßenbahn"])
def test_a_word_alone_is_found_in_a_text_of_any_language(word: str) -> None:
    for text in (f"Das ist nicht der {word} von mir.", f"This is the {word} of mine.", word):
        assert set(terms(word)) <= set(terms(text))


def test_a_question_has_a_limit() -> None:
    assert len(Words().content("word " * 100_000 + "last")) == 1
