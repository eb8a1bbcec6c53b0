"""Texts are cut where a reader would cut them; each chunk has its position."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry_recall.chunk import TOKEN, Chunk, chunks

LINES = st.lists(
    st.one_of(
        st.text(max_size=300),
        st.sampled_from(["", "# Head", "## Next", "  ", "A sentence. And one more! " * 30]),
        st.text("ab .é世界\u0301\u200d", max_size=900),
    ),
    max_size=40,
)
TEXTS = LINES.map("\n".join)
SIZES = st.sampled_from([(256, 32), (400, 80), (1024, 128), (16, 0), (16, 8), (64, 16)])


@given(TEXTS, SIZES)
def test_every_visible_character_is_in_a_piece(text: str, sizes: tuple[int, int]) -> None:
    covered = {at for chunk in _cut(text, sizes) for at in range(chunk.start, chunk.end)}
    assert not [at for at, char in enumerate(text) if not char.isspace() and at not in covered]


@pytest.mark.requirement("chunk-line-numbers")
@given(TEXTS, SIZES)
def test_a_piece_is_the_text_that_its_lines_say(text: str, sizes: tuple[int, int]) -> None:
    lines = text.split("\n")
    for chunk in _cut(text, sizes):
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.start_line == text.count("\n", 0, chunk.start) + 1
        assert chunk.end_line == chunk.start_line + chunk.text.count("\n")


@pytest.mark.requirement("chunk-size-overlap")
@given(TEXTS, SIZES)
def test_pieces_have_their_size_and_share_no_more_than_the_overlap(
    text: str, sizes: tuple[int, int]
) -> None:
    found = _cut(text, sizes)
    assert all(len(chunk.text) <= sizes[0] * TOKEN for chunk in found)
    for one, following in pairwise(found):
        assert one.start < following.start
        assert one.end < following.end
        assert one.end - following.start <= sizes[1] * TOKEN


def test_a_short_text_is_one_piece() -> None:
    assert chunks("\n\nThe cat sat.\nIt purred.\n\n") == [
        Chunk("The cat sat.\nIt purred.", 3, 4, 2, 25)
    ]


def test_blank_lines_behind_the_text_make_no_piece_of_what_was_said_before() -> None:
    text = "\n" * 8 + "0\n0\n00\n00\n00\n00000\n000000\n00000000\n000000000\n000000000\n  "
    assert [chunk.end for chunk in chunks(text, size=16, overlap=8)] == [62]


def test_nothing_has_no_pieces() -> None:
    assert chunks(" \n\t\n") == []


@pytest.mark.requirement("chunk-line-aware")
def test_a_line_without_the_end_of_a_sentence_is_never_cut() -> None:
    lines = [f"- item {number} of a list" for number in range(40)]
    for chunk in chunks("\n".join(lines), size=64, overlap=8):
        assert set(chunk.text.split("\n")) <= set(lines)


@pytest.mark.requirement("chunk-line-aware")
def test_a_long_line_is_cut_at_the_end_of_a_sentence() -> None:
    found = chunks("One is here. Two is there! Is three? " * 4, size=16, overlap=0)
    assert all(chunk.text[-1] in ".!?" for chunk in found)
    assert {(chunk.start_line, chunk.end_line) for chunk in found} == {(1, 1)}


def test_chinese_is_cut_at_its_full_stops() -> None:
    found = chunks("我们今天去公园散步。天气很好。" * 12, size=16, overlap=0)
    assert all(chunk.text[-1] == "。" for chunk in found)


def test_a_long_sentence_is_cut_between_words() -> None:
    found = chunks("word " * 60, size=16, overlap=0)
    assert all(set(chunk.text.split()) == {"word"} for chunk in found)


def test_a_character_is_never_torn_from_its_accent() -> None:
    assert all(chunk.text[0] == "e" for chunk in chunks("e\u0301" * 200, size=16, overlap=0))


def test_a_heading_goes_with_what_follows_it() -> None:
    text = "x" * 50 + "\n# Birds\n" + "They fly south. " * 3
    assert [chunk.text.split()[0] for chunk in chunks(text, size=16, overlap=0)] == ["x" * 50, "#"]


def test_the_end_of_a_piece_is_repeated_in_the_next() -> None:
    first, second, *_ = chunks("Alpha is one. Beta is two. " * 9, size=16, overlap=4)
    assert first.text.endswith("Beta is two.")
    assert second.text.startswith("Beta is two.")


@pytest.mark.parametrize(("size", "overlap"), [(15, 0), (9000, 0), (64, 33), (64, -1)])
def test_sizes_that_make_no_sense_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=r"chunk|overlap"):
        chunks("text", size=size, overlap=overlap)


def _cut(text: str, sizes: tuple[int, int]) -> list[Chunk]:
    return chunks(text, size=sizes[0], overlap=sizes[1])
