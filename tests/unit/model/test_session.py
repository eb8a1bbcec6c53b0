"""The ids of transcript entries."""

import tracemalloc
from typing import Any

import pytest
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


def test_text_of_a_damaged_row_is_refused_before_it_is_multiplied() -> None:
    damaged: Any = "x"
    tracemalloc.start()
    try:
        with pytest.raises(TypeError):
            entry_id(damaged)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
