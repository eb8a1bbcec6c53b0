"""The ids of transcript entries."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.model.session import entry_id

INVERSE = pow(0x9E37_79B1, -1, 2**32)


@given(st.integers(0, 2**32 - 1))
def test_every_entry_has_an_id_of_its_own(seq: int) -> None:
    identity = entry_id(seq)
    assert len(identity) == 8
    assert int(identity, 16) * INVERSE % 2**32 == seq  # so no two entries share one


def test_the_first_ids_are_known() -> None:
    assert [entry_id(seq) for seq in (1, 2, 3)] == ["9e3779b1", "3c6ef362", "daa66d13"]
