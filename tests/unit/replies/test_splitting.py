"""Splitting of texts into parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.outbound import TextUnit
from skerry.replies.splitting import split


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
    start = 0
    for part in parts:  # the parts occur in order, with only blanks between them
        position = text.index(part, start)
        assert not text[start:position].strip()
        start = position + len(part)
    assert not text[start:].strip()


def test_code_that_is_cut_is_closed_and_opened_again_with_its_language() -> None:
    text = "See:\n```py\none = 1\ntwo = 2\nthree = 3\n```\nDone."
    assert split(text, 30) == [
        "See:\n```py\none = 1\ntwo = 2\n```",
        "```py\nthree = 3\n```\nDone.",
    ]


def test_code_that_fits_a_part_of_its_own_is_moved_whole() -> None:
    text = "A word or two before it.\n```\none = 1\n```\n"
    assert split(text, 30) == ["A word or two before it.\n", "```\none = 1\n```\n"]


@pytest.mark.parametrize(
    ("unit", "parts"),
    [
        (TextUnit.CHARACTERS, ["👍👍", "👍"]),
        (TextUnit.UTF16, ["👍", "👍", "👍"]),
        (TextUnit.BYTES, ["👍", "👍", "👍"]),
    ],
)
def test_the_limit_counts_as_the_platform_does(unit: TextUnit, parts: list[str]) -> None:
    limit = {TextUnit.CHARACTERS: 2, TextUnit.UTF16: 3, TextUnit.BYTES: 7}[unit]
    assert split("👍👍👍", limit, unit) == parts


def test_a_family_is_not_parted() -> None:
    assert split("👩‍👩‍👧👩‍👩‍👧", 7) == ["👩‍👩‍👧", "👩‍👩‍👧"]
