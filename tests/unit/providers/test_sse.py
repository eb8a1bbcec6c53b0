"""Server-sent events: the rules of the format, by example."""

import pytest

from skerry.providers.streaming_call import EventSplitter, EventTooLargeError


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\n", [b"a"]),
        (b"data: a\r\r", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b": comment\ndata: a\n\n", [b"a"]),
        (b": only a comment\n\n", []),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"\n\n\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a:b\n\n", [b"a:b"]),
        (b"datum: a\n\n", []),
        (b"data: unfinished\n", []),
    ],
)
def test_a_stream_is_split_as_the_standard_says(stream: bytes, events: list[bytes]) -> None:
    assert EventSplitter().feed(stream) == events


def test_an_event_comes_with_the_chunk_that_completes_it() -> None:
    splitter = EventSplitter()
    fed = [splitter.feed(chunk) for chunk in (b"da", b"ta: a", b"\r", b"\n\r", b"\ndata: b\n\n")]
    assert fed == [[], [], [], [b"a"], [b"b"]]


@pytest.mark.parametrize("chunk", [b"x" * 5, b"data\n"])
def test_an_event_over_the_limit_is_refused_before_it_ends(chunk: bytes) -> None:
    splitter = EventSplitter(limit=12)
    splitter.feed(chunk)
    splitter.feed(chunk)
    with pytest.raises(EventTooLargeError, match="more than 12 bytes"):
        splitter.feed(chunk + chunk)


def test_many_events_together_may_have_more_than_the_limit() -> None:
    assert EventSplitter(limit=10).feed(b"data: 1\n\n" * 50) == [b"1"] * 50
