"""Messages of a conversation that are sent: known values; `tests/property` has the laws."""

from skerry.model.message import AssistantMessage, TextBlock, Usage, user
from skerry.ports.model import History
from skerry.sessions.window import first_that_fits


def reply(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "", "", "", Usage(), "stop", 0)


HISTORY = History([user("a" * 84, 0), reply("b" * 84), user("c" * 84, 0), reply("d" * 84)])
"""Four messages of 100 characters each, 25 tokens."""


def test_everything_is_sent_while_it_fits() -> None:
    assert first_that_fits(HISTORY, 100) == 0


def test_what_does_not_fit_is_left_out_up_to_the_next_message_of_the_person() -> None:
    assert first_that_fits(HISTORY, 99) == 2
    assert first_that_fits(HISTORY, 50) == 2


def test_the_last_message_of_the_person_is_sent_even_when_it_does_not_fit() -> None:
    assert first_that_fits(HISTORY, 49) == 2
    assert first_that_fits(HISTORY, -5) == 2


def test_an_empty_conversation_and_one_without_a_person_begin_at_the_beginning() -> None:
    assert first_that_fits(History(), 0) == 0
    assert first_that_fits(History([reply("x" * 100)]), 1) == 0
