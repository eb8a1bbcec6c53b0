"""Recorded streams, cut anywhere: the same reply, or none at all."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.errors import ModelStreamCutError
from skerry.model.message import TextBlock, ThinkingBlock
from skerry.ports.model import ModelReply
from tests.support.streams import REPLIES, read, recorded

names = st.sampled_from(sorted(REPLIES))


@pytest.mark.parametrize("name", REPLIES)
def test_a_recorded_stream_is_its_reply(name: str) -> None:
    reply, text, thinking = read(name, [recorded(name)])
    assert reply == REPLIES[name]
    content = REPLIES[name].content
    assert text == "".join(block.text for block in content if isinstance(block, TextBlock))
    assert thinking == "".join(
        block.thinking for block in content if isinstance(block, ThinkingBlock)
    )


@given(names, st.data())
def test_however_the_bytes_are_split_the_reply_is_the_same(name: str, data: st.DataObject) -> None:
    whole = recorded(name)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=20).map(sorted))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(name, pieces)[0] == REPLIES[name]


@pytest.mark.parametrize("name", REPLIES)
def test_a_stream_cut_before_its_end_marker_is_never_a_reply(name: str) -> None:
    events = re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", recorded(name))
    whole = [event for event in events if event]
    behind = 2 if name.startswith("openai-completions") else 0  # usage and [DONE]
    for count in range(len(whole) - behind):
        assert isinstance(read(name, whole[:count])[0], ModelStreamCutError)
    assert isinstance(read(name, whole)[0], ModelReply)
