"""What holds of every text that is cut: nothing lost, everything fits, nobody sees a seam."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.outbound import TextUnit
from skerry.replies import code_fences
from skerry.replies.chunking import Chunker, Chunking, Coalescer
from skerry.replies.graphemes import is_boundary, size
from skerry.replies.split_points import Break, TextPiece
from skerry.replies.splitting import split, text_pieces

WORDS = (
    *("a", "word", " ", "  ", "\n", "\n\n", ". ", "! ", "é", "e\u0301", "\u0301", "語", "\r\n"),
    *(
        "👩‍👩‍👧",
        "🇩🇪",
        "👍🏽",
        "각",
        "```\n",
        "```py\n",
        "\n```\n",
        "~~~\n",
        "`x`",
        "    ",
        "\t",
        "\n\n\n",
        "\n         \n",
    ),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=60).map("".join)
UNITS = st.sampled_from(TextUnit)


def places(found: list[TextPiece]) -> Iterator[int]:
    """Yields where the text was cut."""
    place = 0
    for piece in found[:-1]:
        place += len(piece.body)
        yield place


def open_fence(text: str) -> code_fences.Fence | None:
    fence = None
    for line in text.split("\n"):
        fence = code_fences.after(line, fence)
    return fence


@given(TEXTS, st.integers(25, 120), UNITS)
def test_the_bodies_joined_are_the_text_and_every_part_fits(
    text: str, limit: int, unit: TextUnit
) -> None:
    found = text_pieces(text, limit, unit)
    assert "".join(one.body for one in found) == text
    assert all(size(one.text, unit) <= limit for one in found)
    parts = split(text, limit, unit)
    assert parts == [one.text for one in found if one.body.strip()]


@given(TEXTS, st.integers(1, 60), UNITS)
def test_a_text_is_cut_within_any_limit(text: str, limit: int, unit: TextUnit) -> None:
    found = text_pieces(text, limit, unit)
    assert "".join(one.body for one in found) == text
    largest = max((size(one, unit) for one in text), default=0)
    assert all(size(one.text, unit) <= max(limit, largest) for one in found)


@given(TEXTS, st.integers(30, 120), UNITS)
def test_nothing_that_a_person_sees_as_one_is_cut(text: str, limit: int, unit: TextUnit) -> None:
    assert all(is_boundary(text, place) for place in places(text_pieces(text, limit, unit)))


@given(TEXTS, st.integers(40, 120), UNITS)
def test_every_part_but_the_last_closes_its_fences(text: str, limit: int, unit: TextUnit) -> None:
    found = text_pieces(text, limit, unit)
    assert all(open_fence(one.text) is None for one in found[:-1])
    assert (open_fence(found[-1].text) is None) == (open_fence(text) is None)


CHUNKINGS = st.builds(
    Chunking,
    minimum=st.integers(1, 60),
    maximum=st.integers(40, 120),
    preference=st.sampled_from((Break.PARAGRAPH, Break.NEWLINE, Break.SENTENCE)),
    unit=UNITS,
)


def blocks(deltas: list[str], chunking: Chunking) -> list[TextPiece]:
    chunker = Chunker(chunking)
    found = [block for delta in deltas for block in chunker.feed(delta)]
    return [*found, *chunker.flush()]


@given(TEXTS, CHUNKINGS, st.lists(st.integers(0, 200)))
def test_the_blocks_of_a_stream_do_not_depend_on_how_it_came(
    text: str, chunking: Chunking, cuts: list[int]
) -> None:
    marks = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    deltas = [text[a:b] for a, b in pairwise(marks)]
    once = blocks([text], chunking)
    assert blocks(list(text), chunking) == once
    assert blocks(deltas, chunking) == once


@given(TEXTS, CHUNKINGS)
def test_blocks_lose_nothing_and_fit(text: str, chunking: Chunking) -> None:
    found = blocks(list(text), chunking)
    assert "".join(one.body for one in found) == text
    assert all(size(one.text, chunking.unit) <= chunking.maximum for one in found)
    assert all(is_boundary(text, place) for place in places(found))
    assert all(open_fence(one.text) is None for one in found[:-1])


@given(TEXTS, CHUNKINGS, st.integers(1, 100), st.integers(120, 200))
def test_joined_blocks_lose_nothing_and_fit(
    text: str, chunking: Chunking, minimum: int, maximum: int
) -> None:
    joining = Coalescer(minimum, maximum, chunking.unit)
    found = [one for block in blocks([text], chunking) for one in joining.add(block)]
    found += joining.flush()
    assert "".join(one.body for one in found) == text
    assert all(size(one.text, chunking.unit) <= maximum for one in found)
    assert not joining.holds


@pytest.mark.parametrize(
    "cluster", ["👩‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301", "각", "க்ஷ", "\r\n", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "नी"]
)
def test_a_cluster_has_no_place_to_cut(cluster: str) -> None:
    assert not any(is_boundary(f"a{cluster}b", place) for place in range(2, len(cluster) + 1))
    assert is_boundary(f"a{cluster}b", 1)
    assert is_boundary(f"a{cluster}b", len(cluster) + 1)
