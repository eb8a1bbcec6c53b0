"""What is taken out of a text so that a statement is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.redaction import MARK, PhraseError, Redaction

words = st.text("abcdeäßéñ", min_size=3, max_size=8)


def test_the_sentence_goes_and_its_neighbours_stay() -> None:
    text = "I like tea. My locker code is 4711-B, do not tell. It rains."
    assert Redaction(["locker CODE is 4711 b"]).text(text) == f"I like tea. {MARK} It rains."


def test_a_phrase_is_found_over_the_end_of_a_line_and_through_markup() -> None:
    text = "The **locker\ncode** is 4711.\nOther."
    assert "4711" not in Redaction(["locker code is 4711"]).text(text)


def test_a_part_of_a_longer_word_is_none() -> None:
    assert Redaction(["tea"]).text("A team. A teapot.") == "A team. A teapot."


def test_a_phrase_in_a_script_without_spaces_is_found_within_a_run() -> None:
    assert Redaction(["暗証番号"]).text("私の暗証番号は1234です。雨。") == f"{MARK}雨。"


def test_letters_with_accents_are_found_however_they_are_encoded() -> None:
    assert Redaction(["café noir"]).text("The cafe\u0301 noir.") == MARK


def test_a_text_without_any_end_loses_what_is_near() -> None:
    text = f"{'a ' * 5000}hunter2{' b' * 5000}"
    left = Redaction(["hunter2"]).text(text)
    assert "hunter2" not in left
    assert len(left) > 19_000


def test_an_empty_bullet_does_not_stay_in_a_document() -> None:
    text = "# Notes\n\n- I like tea.\n- My code is 4711.\n- [ ] Rain. My code is 4711. Snow.\n"
    left = Redaction(["code is 4711"]).document(text)
    assert left == "# Notes\n\n- I like tea.\n- [ ] Rain. Snow.\n"


def test_names_and_bytes_in_json_stay_and_a_changed_thought_goes() -> None:
    value = {
        "role": "assistant",
        "sessionKey": "agent:main:hunter2",
        "content": [
            {"type": "thinking", "thinking": "It is hunter2.", "thinkingSignature": "x"},
            {"type": "text", "text": "It is hunter2.", "textSignature": "y"},
            {"type": "toolCall", "id": "c1", "arguments": {"a": ["hunter2", None, 3]}},
        ],
    }
    assert Redaction(["hunter2"]).value(value) == {
        "role": "assistant",
        "sessionKey": "agent:main:hunter2",
        "content": [
            {"type": "text", "text": MARK},
            {"type": "toolCall", "id": "c1", "arguments": {"a": [MARK, None, 3]}},
        ],
    }


def test_json_without_the_phrase_is_the_same_object() -> None:
    value = {"content": ({"type": "text", "text": "tea"},), "n": 1}
    assert Redaction(["hunter2"]).value(value) is value


@pytest.mark.parametrize("phrases", [[], ["a"], ["- ."], ["x" * 1001], ["abc"] * 0, ["é."]])
def test_what_stands_nearly_everywhere_is_refused(phrases: list[str]) -> None:
    with pytest.raises(PhraseError, match=r"phrase|short"):
        Redaction(phrases)


@given(st.lists(words, min_size=1, max_size=4), st.text(max_size=300), st.text(max_size=300))
def test_nothing_of_it_is_left_and_looking_first_is_never_wrong(
    phrase: list[str], before: str, after: str
) -> None:
    redaction = Redaction([" ".join(phrase)])
    text = f"{before} {', '.join(phrase)} {after}"
    assert redaction.may_be_in(text)
    assert redaction.holds(text)
    assert not redaction.holds(redaction.text(text))
    assert not redaction.holds(redaction.document(text))
    assert redaction.text(redaction.text(text)) == redaction.text(text)
