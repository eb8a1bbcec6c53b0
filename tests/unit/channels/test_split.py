"""Where a text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.channels.split import split


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("short", 10, ["short"]),
        ("exactly10!", 10, ["exactly10!"]),
        ("one\ntwo three", 10, ["one\n", "two three"]),
        ("one two three", 10, ["one two ", "three"]),
        ("abcdefghijkl", 5, ["abcde", "fghij", "kl"]),
        ("", 5, []),
        (" \n ", 2, []),
        ("a\n\n\n\n\nb", 3, ["a\n\n", "b"]),
    ],
)
def test_it_cuts_at_the_last_line_end_else_space_else_limit(
    text: str, limit: int, parts: list[str]
) -> None:
    assert split(text, limit) == parts


@given(st.text(st.sampled_from("ab \n\t\u2003"), max_size=60), st.integers(1, 20))
def test_parts_fit_and_lose_nothing_that_can_be_seen(text: str, limit: int) -> None:
    parts = split(text, limit)
    assert all(0 < len(part) <= limit and part.strip() for part in parts)
    place = 0
    for part in parts:  # each is found in order; between them there are blanks only
        found = text.index(part, place)
        assert not text[place:found].strip()
        place = found + len(part)
    assert not text[place:].strip()
