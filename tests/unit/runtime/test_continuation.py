"""The seam of a continued answer: repeated text is removed, and no other text."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skerry.model.message import TextBlock, ThinkingBlock, ToolCall
from skerry.runtime.continuation import SEAM, Seam, joined, unrepeated

BEFORE = "The boats lie behind the island. The pilot waits for"
texts = st.text("ab\n", max_size=40)


def through(before: str, after: str, cuts: list[int]) -> str:
    """Returns the output of a seam for a text that is fed in chunks."""
    seam, positions = Seam(before), sorted({min(cut, len(after)) for cut in cuts} | {0, len(after)})
    chunks = [after[a:b] for a, b in pairwise(positions)]
    return "".join(map(seam.feed, chunks)) + seam.end()


@pytest.mark.parametrize(
    ("after", "new"),
    [
        (" the tide.", " the tide."),
        (BEFORE + " the tide.", " the tide."),
        ("The pilot waits for the tide.", " the tide."),
        ("for the tide.", "for the tide."),  # too short to be known for a repetition
        ("The boats were sold.", "The boats were sold."),
        (BEFORE, ""),
        ("", ""),
    ],
)
def test_what_a_model_repeats_at_the_seam_goes(after: str, new: str) -> None:
    assert through(BEFORE, after, list(range(len(after)))) == new
    assert joined(BEFORE, [TextBlock(after)]) == (TextBlock(BEFORE + new),)


@given(texts, texts, st.lists(st.integers(0, 40), max_size=6))
@example("a" * SEAM, "a" * SEAM + "b", [3])
def test_the_stream_says_what_the_whole_says(before: str, after: str, cuts: list[int]) -> None:
    new = through(before, after, cuts)
    assert new == (unrepeated(before, after) if before else after)
    assert after.endswith(new)
    removed = after[: len(after) - len(new)]
    assert not removed.strip("\n") or (len(removed) >= SEAM and before.endswith(removed))


def test_the_break_between_two_paragraphs_comes_once() -> None:
    assert unrepeated("One.\n\n", "\n\nTwo.") == "Two."
    assert unrepeated("One.", "\n\nTwo.") == "\n\nTwo."


def test_an_answer_that_goes_on_with_a_call_keeps_its_beginning_before_it() -> None:
    thought, call = ThinkingBlock("hm"), ToolCall("c1", "read", {})
    assert joined(BEFORE, [thought, call]) == (thought, TextBlock(BEFORE), call)
    assert joined("", [call]) == (call,)
