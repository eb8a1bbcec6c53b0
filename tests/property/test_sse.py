"""Server-sent events: however the network cuts a stream, it holds the same events."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from skerry.providers.streaming_call import EventSplitter

characters = st.characters(codec="utf-8", exclude_characters="\r\n")
texts = st.lists(st.text(characters, max_size=8), min_size=1)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Returns a stream with line ends of one kind, and its events."""
    end = draw(ends)
    stream, events = b"", []
    for lines in draw(st.lists(texts, max_size=5)):
        if draw(st.booleans()):
            stream += b": comment" + end
        stream += b"".join(b"data: " + line.encode() + end for line in lines) + end
        events.append("\n".join(lines).encode())
    return stream, events


def feed(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    splitter = EventSplitter()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(places)]
    return [event for chunk in chunks for event in splitter.feed(chunk)]


@given(streams(), st.lists(st.integers(0, 400), max_size=20))
@example((b"\xef\xbb\xbfdata: a\r\n\r\n", [b"a"]), [1, 2, 9, 10, 11, 12])
def test_any_cutting_gives_the_events_that_were_written(
    written: tuple[bytes, list[bytes]], cuts: list[int]
) -> None:
    stream, events = written
    assert feed(stream, cuts) == events


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=20))
def test_any_cutting_of_any_bytes_gives_the_same(stream: bytes, cuts: list[int]) -> None:
    assert feed(stream, cuts) == EventSplitter().feed(stream)
