"""References to the environment."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.references import Substitution, names, refers

ENVIRON = {"A": "one", "B_2": "two", "EMPTY": ""}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${A}", "one"),
        ("x${A}y${B_2}z", "xoneytwoz"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("${a} $A ${A-x} ${} $", "${a} $A ${A-x} ${} $"),
    ],
)
def test_a_name_in_braces_is_replaced(written: str, meant: str) -> None:
    substitution = Substitution(ENVIRON)
    assert substitution.value({"k": [written]}) == {"k": [meant]}
    assert substitution.issues == []


@pytest.mark.parametrize("name", ["EMPTY", "NOWHERE"])
def test_a_variable_that_is_missing_or_empty_is_named_with_its_place(name: str) -> None:
    substitution = Substitution(ENVIRON)
    assert substitution.value({"a": {"b": ["x", f"-${{{name}}}"]}}) == {
        "a": {"b": ["x", f"-${{{name}}}"]}
    }
    (issue,) = substitution.issues
    assert (issue.path, name in issue.message) == ("a.b[1]", True)


def test_a_value_is_not_looked_at_again() -> None:
    assert Substitution({"A": "${B}", "B": "x"}).value("${A}") == "${B}"


def test_an_object_is_a_reference_where_a_secret_is_expected_and_nowhere_else() -> None:
    reference = {"source": "env", "provider": "default", "id": "A"}
    found = Substitution(ENVIRON).value({"apiKey": reference, "headers": {"x": reference}})
    assert found == {"apiKey": "one", "headers": {"x": "one"}}
    assert Substitution(ENVIRON).value({"note": reference}) == {"note": reference}


@pytest.mark.parametrize(
    "reference",
    [
        {"source": "file", "provider": "default", "id": "/x"},
        {"source": "exec", "id": "x"},
        {"source": "env", "provider": "other", "id": "A"},
        {"source": "env", "id": "lower"},
    ],
)
def test_other_objects_are_refused(reference: dict[str, str]) -> None:
    substitution = Substitution(ENVIRON)
    substitution.value({"token": reference})
    assert [issue.path for issue in substitution.issues] == ["token"]


def test_what_was_used_is_known_and_what_refers_too() -> None:
    substitution = Substitution(ENVIRON)
    tree = {"a": "${A}", "token": {"source": "env", "id": "B_2"}, "c": "$${C}"}
    substitution.value(tree)
    assert substitution.used == {"A": "one", "B_2": "two"}
    assert list(names(tree)) == ["A", "B_2"]
    assert refers(tree)
    assert not refers({"c": "$${C}", "d": [1, None]})


words = st.text(string.ascii_letters + string.digits + "${}_", max_size=12)
trees = st.recursive(
    words | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(words, inner)
)


@given(trees)
def test_a_tree_without_references_is_left_as_it_is(tree: Any) -> None:
    substitution = Substitution({})
    if "{" not in str(tree).replace("{'", "").replace("{}", ""):
        assert substitution.value(tree) == tree
