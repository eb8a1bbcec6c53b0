"""What follows a change: an answer for every key of the file, and always the same one."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from skerry.config.json_schema import leaves, schema
from skerry.config.paths import KeyPath, changes, show_key_path, within
from skerry.config.reload_rules import RULES, Effect, effect, needs_restart

_KEYS: Final = [path for path, _ in leaves(schema())]
PLACES: Final = [tuple(path.replace("[]", ".0").split(".")) for path in _KEYS]


def test_every_key_of_the_schema_has_a_rule() -> None:
    without = [show_key_path(place) for place in PLACES if not _rules(place)]
    assert not without, "keys without a rule in config/reload_rules.py"


@given(st.sampled_from(PLACES), st.lists(st.text(max_size=3), max_size=3))
def test_the_parts_of_a_key_follow_its_rule(place: KeyPath, deeper: list[str]) -> None:
    assert effect(place) is _rules(place)[0]
    assert effect((*place, *deeper)) is effect(place)


def _rules(place: KeyPath) -> list[Effect]:
    return [effect for pattern, effect in RULES if within(place, pattern)]


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4).map(tuple))
def test_a_place_that_no_rule_names_needs_a_restart(place: KeyPath) -> None:
    named = any(within(place, pattern) for pattern, _ in RULES)
    assert named or needs_restart([place]) == [show_key_path(place)]


def test_no_rule_is_hidden_by_one_before_it() -> None:
    for number, (pattern, _) in enumerate(RULES):
        assert not any(within(pattern, before) for before, _ in RULES[:number])


_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
_TREES: Final = st.dictionaries(st.sampled_from([p[0] for p in PLACES]), _VALUES, max_size=4)


@given(_TREES, _TREES)
def test_trees_differ_where_and_only_where_something_follows(
    before: dict[str, object], after: dict[str, object]
) -> None:
    found = list(changes(before, after))
    assert bool(found) == (before != after or _typed(before) != _typed(after))
    assert {effect(place) for place in found} <= set(Effect)


def _typed(value: object) -> object:
    """Returns the value so that 1 and true differ."""
    match value:
        case dict():
            return {key: _typed(one) for key, one in value.items()}
        case list():
            return [_typed(one) for one in value]
        case _:
            return type(value), value
