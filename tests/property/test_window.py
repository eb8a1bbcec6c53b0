"""The window of a conversation, against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import (
    CHARS_PER_TOKEN,
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    size,
    user,
)
from skerry.ports.model import History
from skerry.sessions.window import first_that_fits


def message_of(kind: str, length: int) -> Message:
    text = TextBlock("x" * length)
    if kind == "user":
        return user(text.text, 0)
    if kind == "assistant":
        return AssistantMessage((text,), "", "", "", Usage(), "stop", 0)
    return ToolResultMessage("c", "read", (text,), is_error=False, timestamp=0)


conversations = st.lists(
    st.builds(message_of, st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 60)),
    max_size=12,
)


@given(conversations, st.integers(-5, 250))
def test_the_window_is_the_longest_that_fits_and_begins_with_a_person(
    messages: list[Message], budget: int
) -> None:
    people = [n for n, message in enumerate(messages) if isinstance(message, UserMessage)]
    fitting = [n for n in people if sum(map(size, messages[n:])) <= budget * CHARS_PER_TOKEN]
    if sum(map(size, messages)) <= budget * CHARS_PER_TOKEN or not people:
        expected = 0
    else:
        expected = fitting[0] if fitting else people[-1]
    first = first_that_fits(History(messages), budget)
    assert first == expected
    assert not people or first <= people[-1]  # the last message of the person is always there
