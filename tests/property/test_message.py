"""Messages survive being written and read."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    decode,
    encode,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
number = st.integers(0, 2**53)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
signature = st.none() | text
contents = st.lists(
    st.builds(TextBlock, text, signature) | st.builds(ImageBlock, text, text), max_size=3
).map(tuple)
blocks = st.lists(
    st.builds(TextBlock, text, signature)
    | st.builds(ThinkingBlock, text, signature, st.booleans())
    | st.builds(ToolCall, text, text, st.dictionaries(text, json, max_size=3), signature),
    max_size=3,
).map(tuple)
usage = st.builds(Usage, number, number, number, number, number)
messages: st.SearchStrategy[Message] = (
    st.builds(UserMessage, contents, number)
    | st.builds(AssistantMessage, blocks, text, text, text, usage, text, number, st.none() | text)
    | st.builds(ToolResultMessage, text, text, contents, st.booleans(), number)
)


@given(messages)
def test_what_is_written_is_read_again(one: Message) -> None:
    data = encode(one)
    assert decode(data) == one
    assert b"\n" not in data  # it is one line of the transcript
