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


def places(pieces: list[TextPiece]) -> Iterator[int]:
    """Yields where the text was cut."""
    position = 0
    for piece in pieces[:-1]:
        position += len(piece.body)
        yield position


def open_fence(text: str) -> code_fences.Fence | None:
    fence = None
    for line in text.split("\n"):
        fence = code_fences.after(line, fence)
    return fence


@given(TEXTS, st.integers(25, 120), UNITS)
def test_the_bodies_joined_are_the_text_and_every_part_fits(
    text: str, limit: int, unit: TextUnit
) -> None:
    pieces = text_pieces(text, limit, unit)
    assert "".join(piece.body for piece in pieces) == text
    assert all(size(piece.text, unit) <= limit for piece in pieces)
    parts = split(text, limit, unit)
    assert parts == [piece.text for piece in pieces if piece.body.strip()]


@given(TEXTS, st.integers(1, 60), UNITS)
def test_a_text_is_cut_within_any_limit(text: str, limit: int, unit: TextUnit) -> None:
    pieces = text_pieces(text, limit, unit)
    assert "".join(piece.body for piece in pieces) == text
    largest = max((size(one, unit) for one in text), default=0)
    assert all(size(piece.text, unit) <= max(limit, largest) for piece in pieces)


@given(TEXTS, st.integers(30, 120), UNITS)
def test_nothing_that_a_person_sees_as_one_is_cut(text: str, limit: int, unit: TextUnit) -> None:
    assert all(is_boundary(text, position) for position in places(text_pieces(text, limit, unit)))


@given(TEXTS, st.integers(40, 120), UNITS)
def test_every_part_but_the_last_closes_its_fences(text: str, limit: int, unit: TextUnit) -> None:
    pieces = text_pieces(text, limit, unit)
    assert all(open_fence(piece.text) is None for piece in pieces[:-1])
    assert (open_fence(pieces[-1].text) is None) == (open_fence(text) is None)


CHUNKINGS = st.builds(
    Chunking,
    minimum=st.integers(1, 60),
    maximum=st.integers(40, 120),
    preference=st.sampled_from((Break.PARAGRAPH, Break.NEWLINE, Break.SENTENCE)),
    unit=UNITS,
)


def blocks(deltas: list[str], chunking: Chunking) -> list[TextPiece]:
    chunker = Chunker(chunking)
    pieces = [block for delta in deltas for block in chunker.feed(delta)]
    return [*pieces, *chunker.flush()]


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
    pieces = blocks(list(text), chunking)
    assert "".join(piece.body for piece in pieces) == text
    assert all(size(piece.text, chunking.unit) <= chunking.maximum for piece in pieces)
    assert all(is_boundary(text, position) for position in places(pieces))
    assert all(open_fence(piece.text) is None for piece in pieces[:-1])


@given(TEXTS, CHUNKINGS, st.integers(1, 100), st.integers(120, 200))
def test_joined_blocks_lose_nothing_and_fit(
    text: str, chunking: Chunking, minimum: int, maximum: int
) -> None:
    joining = Coalescer(minimum, maximum, chunking.unit)
    pieces = [piece for block in blocks([text], chunking) for piece in joining.add(block)]
    pieces += joining.flush()
    assert "".join(piece.body for piece in pieces) == text
    assert all(size(piece.text, chunking.unit) <= maximum for piece in pieces)
    assert not joining.holds


@pytest.mark.parametrize(
    "cluster", ["👩‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301", "각", "க்ஷ", "\r\n", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "नी"]
)
def test_a_cluster_has_no_place_to_cut(cluster: str) -> None:
    assert not any(is_boundary(f"a{cluster}b", number) for number in range(2, len(cluster) + 1))
    assert is_boundary(f"a{cluster}b", 1)
    assert is_boundary(f"a{cluster}b", len(cluster) + 1)
