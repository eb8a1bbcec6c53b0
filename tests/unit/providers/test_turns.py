"""Messages of one side become one turn, each encoded once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.message import AssistantMessage, Message, TextBlock, Usage, user
from skerry.ports.model import ModelInfo
from skerry.providers.wire_format import Turns, is_own


def assistant_message(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "", "", "", Usage(), "stop", 1)


def encode(message: Message) -> bytes:
    return message.text.encode()


def close(assistant: bool, blocks: bytes) -> bytes:  # noqa: FBT001 - the form's own signature
    return (b"A(%b)" if assistant else b"U(%b)") % blocks


def turns(*messages: Message) -> Turns:
    made = Turns(encode, close)
    for message in messages:
        made.add(message)
    return made


def test_neighbours_of_one_side_are_joined_also_when_they_come_later() -> None:
    made = turns(user("a", 1), user("b", 1), assistant_message("c"))
    assert made.since(0) == [b"U(a,b)", b"A(c)"]
    made.add(assistant_message("d"))
    assert made.since(0) == [b"U(a,b)", b"A(c,d)"]


def test_a_message_without_blocks_is_left_out_and_joins_its_neighbours() -> None:
    assert turns(user("a", 1), assistant_message(""), user("b", 1)).since(0) == [b"U(a,b)"]
    assert turns(assistant_message(""), user("b", 1)).since(0) == [b"U(b)"]
    assert turns(assistant_message("")).since(0) == []
    assert turns().since(0) == []


def test_a_turn_that_is_cut_begins_with_the_first_message() -> None:
    made = turns(user("a", 1), user("b", 1), assistant_message("c"), assistant_message(""))
    assert made.since(1) == [b"U(b)", b"A(c)"]
    assert made.since(3) == []


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["", "x", "y"]))), st.data())
def test_what_is_sent_is_the_same_whenever_it_is_asked(
    drawn: list[tuple[bool, str]], data: st.DataObject
) -> None:
    messages = [
        assistant_message(text) if assistant else user(text, 1) for assistant, text in drawn
    ]
    grown = Turns(encode, close)
    for message in messages:
        grown.add(message)
        grown.since(0)
    first = data.draw(st.integers(0, len(messages)))
    assert grown.since(first) == turns(*messages[first:]).since(0)
    grown.keep(first)
    assert grown.since(0) == turns(*messages[:first]).since(0)
    for message in messages[first:]:
        grown.add(message)
    assert grown.since(0) == turns(*messages).since(0)


@pytest.mark.parametrize(
    ("said_in", "own"),
    [(("x", "p", "m"), True), (("y", "p", "m"), False), (("x", "q", "m"), False)],
)
def test_what_came_over_another_api_is_not_the_models_own(
    said_in: tuple[str, str, str],
    own: bool,  # noqa: FBT001 - a case
) -> None:
    message = AssistantMessage((), *said_in, Usage(), "stop", 1)
    assert is_own(message, "x", ModelInfo("p", "m", "M")) is own
