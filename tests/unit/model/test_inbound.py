"""Messages from platforms."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.inbound import well_formed


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert well_formed("so \ud83d there") == "so ? there"


@given(st.text())
def test_what_can_be_stored_stays_as_it_is(text: str) -> None:
    assert well_formed(text) == text
