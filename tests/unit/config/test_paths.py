"""Places in a tree: naming, reading, writing, comparing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.paths import (
    MISSING,
    changes,
    lookup,
    parse_key_path,
    replaced,
    show_key_path,
    within,
)
from skerry.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", ("a",)),
        ("a.b[2].c", ("a", "b", 2, "c")),
        ('models.providers["x.y"].id', ("models", "providers", "x.y", "id")),
        ("a['b[0]']", ("a", "b[0]")),
        ("agents.0", ("agents", "0")),
    ],
)
def test_a_place_is_named_with_dots_and_brackets(text: str, place: tuple[str | int, ...]) -> None:
    assert parse_key_path(text) == place


@pytest.mark.parametrize("text", ["", ".", ".a", "a..b", "a[", "a[x]", "a[-1]", "a.b."], ids=repr)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_key_path(text)
    assert caught.value.remedy


names = st.text(min_size=1, max_size=5).filter(lambda text: not ('"' in text and "'" in text))
places = st.lists(names | st.integers(0, 99_999), min_size=1, max_size=5).map(tuple)


@given(places)
def test_what_is_shown_is_read_again(place: tuple[str | int, ...]) -> None:
    assert parse_key_path(show_key_path(place)) == place


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)
sections = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(sections, st.lists(st.sampled_from("abc"), min_size=1, max_size=3), leaves)
def test_what_is_set_is_got_and_nothing_else_changed(
    tree: dict[str, Any], parts: list[str], value: Any
) -> None:
    place = tuple(parts)
    try:
        after = replaced(tree, place, value)
    except ConfigError:
        above = [lookup(tree, place[:depth]) for depth in range(1, len(place))]
        assert any(one is not MISSING and not isinstance(one, dict) for one in above)
        return
    assert lookup(after, place) == value
    for changed in changes(tree, after):
        assert changed[: len(place)] == place or place[: len(changed)] == changed


@given(trees, trees)
def test_two_trees_differ_where_it_is_said_and_only_if_they_do(before: Any, after: Any) -> None:
    found = list(changes(before, after))
    assert bool(found) == (repr_of(before) != repr_of(after))
    assert list(changes(before, before)) == []


def repr_of(tree: Any) -> Any:
    """Returns something that tells True from 1, and forgets the order of keys."""
    match tree:
        case dict():
            return {key: repr_of(value) for key, value in tree.items()}
        case list():
            return [repr_of(value) for value in tree]
        case _:
            return repr(tree)


def test_a_list_item_is_replaced_added_and_removed() -> None:
    tree = {"l": [1, 2]}
    assert replaced(tree, ("l", 0), 5) == {"l": [5, 2]}
    assert replaced(tree, ("l", 2), 3) == {"l": [1, 2, 3]}
    assert replaced(tree, ("l", 0), MISSING) == {"l": [2]}
    with pytest.raises(ConfigError, match="beyond the end"):
        replaced(tree, ("l", 3), 3)


def test_a_pattern_covers_what_is_beneath_it() -> None:
    assert within(("agents", "list", 0, "name"), ("agents", "list", "*", "name"))
    assert within(("agents", "list", 0, "name", "x"), ("agents", "list"))
    assert not within(("agents",), ("agents", "list"))
