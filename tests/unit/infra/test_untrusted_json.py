"""How deep a value is nested."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.infra.untrusted_json import is_deep

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


def height(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(height, value.values()), default=0)
        case list():
            return 1 + max(map(height, value), default=0)
    return 0


@given(VALUES, st.integers(0, 5))
def test_a_value_is_deep_where_it_has_more_levels(value: Any, levels: int) -> None:
    assert is_deep(value, levels) == (height(value) > levels)


def test_an_object_in_a_list_is_two_levels() -> None:
    assert not is_deep([{"a": 1}], 2)
    assert is_deep([{"a": 1}], 1)
