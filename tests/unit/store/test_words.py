"""Which words are indexed and looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model import message
from skerry.model.message import AssistantMessage, TextBlock, ToolCall, ToolResultMessage, Usage
from skerry.model.origin import Origin
from skerry.store.words import excerpt, expression, indexed, plain, spread, terms


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
    ("question", "asked"),
    [
        ("the blue boat", '"blue" OR "boat"'),
        ('a "quoted* OR', '"quoted"'),
        ("東京都", '"東京" OR "京都"'),
        ("猫", '"猫"*'),
        ("", None),
    ],
)
def test_any_of_the_words_is_asked_for(question: str, asked: str | None) -> None:
    assert expression(question) == asked


def test_unspaced_scripts_are_cut_into_pairs() -> None:
    assert spread("ab東京都cd").split() == ["ab", "東京", "京都", "都", "cd"]


@given(st.text())
def test_whatever_is_asked_is_a_question_to_the_index(question: str) -> None:
    asked = expression(question)
    assert asked is None or all(one.startswith('"') for one in asked.split(" OR "))


def test_tool_calls_are_found_and_what_was_remembered_is_not() -> None:
    call = ToolCall("c", "read", {"path": "notes.txt"})
    said = AssistantMessage((TextBlock("Look"), call), "", "", "", Usage(), "toolUse", 1)
    assert indexed(said) == plain(said) == 'Look\nread {"path":"notes.txt"}'
    remembered = (TextBlock("x"),)
    found = ToolResultMessage(
        "c", "session_search", remembered, is_error=False, timestamp=1, origin=Origin.MEMORY
    )
    assert indexed(found) == ""
    assert indexed(message.user("hi", 1)) == "hi"


def test_an_excerpt_stands_around_the_first_word_found() -> None:
    text = "x " * 500 + "the Harbour is here" + " y" * 500
    cut = excerpt(text, "where is the harbour", 40)
    assert "Harbour" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= 42
