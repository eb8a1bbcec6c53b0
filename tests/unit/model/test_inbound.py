"""Messages from platforms."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import (
    InboundMessage,
    Peer,
    PeerKind,
    Quoted,
    normalized,
    well_formed,
)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert well_formed("so \ud83d there") == "so ? there"


@given(st.text())
def test_what_can_be_stored_stays_as_it_is(text: str) -> None:
    assert well_formed(text) == text


def test_lines_and_names_are_the_same_from_every_platform() -> None:
    quoted = Quoted("m0", sender_name="\tBo ", text="a\r\nb")
    message = normalized(
        InboundMessage(
            *(ChannelId("x"), AccountId("default"), Peer(PeerKind.DIRECT, "ann"), "ann"),
            *(" one\r\ntwo\rthree \ud83d", "m1", 0),
            sender_name=" Ann\n",
            sender_username=" ann1 ",
            group_name=" Home ",
            reply=quoted,
        )
    )
    assert message.text == " one\ntwo\nthree ?"
    assert (message.sender_name, message.sender_username, message.group_name) == (
        *("Ann", "ann1"),
        "Home",
    )
    assert message.reply is not None
    assert (message.reply.sender_name, message.reply.text) == ("Bo", "a\nb")
    assert normalized(message) == message
