"""Search terms of a question, and excerpts."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.store.fts_query import excerpt, search_terms, terms


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the name of my dog?", ["name", "dog"]),
        ("who are you", ["who", "are", "you"]),
        ("Dog, dog and DOG", ["dog"]),
        ("???", []),
    ],
)
def test_a_question_is_its_content_words(question: str, found: list[str]) -> None:
    assert terms(question) == found


@pytest.mark.parametrize(
    ("question", "words", "exact"),
    [
        ("the blue boat", {"blue": '"blue"', "boat": '"boat"'}, []),
        ('a "quoted* OR', {"quoted": '"quoted"'}, []),
        ("東京都", {"東京": '"東京"', "京都": '"京都"'}, []),
        ("猫", {"猫": '"猫"*'}, []),
        (
            '"Blue boats" ahoy',
            {"blue": '"blue"', "boats": '"boats"', "ahoy": '"ahoy"'},
            ["Blue boats"],
        ),
        ("why ERR_CONN", {"err": '"err"', "conn": '"conn"'}, ["ERR CONN"]),
        ("", {}, []),
    ],
)
def test_any_of_the_words_is_asked_for(
    question: str, words: dict[str, str], exact: list[str]
) -> None:
    query = search_terms(question)
    assert query.words == words
    assert query.exact == [f'"{phrase}"' for phrase in exact]


@given(st.text())
def test_whatever_is_asked_is_a_question_to_the_index(question: str) -> None:
    query = search_terms(question)
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        for phrase in (*query.words.values(), *query.exact):
            index.execute("SELECT 1 FROM t WHERE t MATCH ?", (phrase,))


def test_an_excerpt_is_taken_where_most_of_the_words_are() -> None:
    text = "a harbour " + "x " * 500 + "the blue Harbour is here" + " y" * 500
    cut = excerpt(text, "where is the blue harbour", 40)
    assert "blue Harbour" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= 42
