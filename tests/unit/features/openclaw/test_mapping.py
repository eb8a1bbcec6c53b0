"""Mapping of a foreign configuration: the result is always valid, and the same each time."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.config.check import check
from skerry.features.openclaw.mapping import mapped, merged

_KEYS = st.sampled_from(
    ["agents", "defaults", "list", "id", "model", "gateway", "auth", "session", "reset", "a.b"]
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "main", "daily", "x"])
_TREES = st.dictionaries(
    _KEYS,
    st.recursive(
        _LEAVES,
        lambda search_strategy: (
            st.lists(search_strategy, max_size=2)
            | st.dictionaries(_KEYS, search_strategy, max_size=3)
        ),
    ),
    max_size=4,
)


@given(_TREES)
def test_what_is_left_of_any_tree_passes_the_check(tree: dict[str, Any]) -> None:
    found = mapped(tree)
    _, warnings = check(found.tree, state_dir=Path("/"), path=Path("/skerry.json"))
    assert not warnings
    assert mapped(found.tree).tree == found.tree


@given(_TREES, _TREES)
def test_merging_twice_is_merging_once_and_nothing_of_ours_is_lost(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    both, kept = merged(ours, theirs)
    assert merged(both, theirs) == (both, kept)
    assert merged(both, ours)[0] == both
    assert merged(both, ours)[1] == []
