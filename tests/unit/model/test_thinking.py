"""Levels of thinking."""

import pytest

from skerry.model.thinking import ThinkingLevel, thinking_level


@pytest.mark.parametrize("level", ThinkingLevel)
def test_each_level_is_named_by_its_word(level: ThinkingLevel) -> None:
    assert thinking_level(f" {level.value.upper()} ") is level


def test_other_words_that_people_use_are_understood() -> None:
    words = ["none", "min", "on", "mid", "highest", "max", "x-high"]
    assert [thinking_level(word).value for word in words] == [
        "off", "minimal", "low", "medium", "high", "xhigh", "xhigh",
    ]  # fmt: skip


def test_an_unknown_word_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="'deeply' is not a thinking level; levels: off, minimal"):
        thinking_level("deeply")
