"""The manifest of rules and the tests' marks say the same, in both directions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.requirements import MANIFEST, ROOT, MarkError, marks, rules, updated

SEEDS = ROOT.parent / "shared" / "reference" / "seed-rules.toml"
MAX_RULES_OF_A_TEST = 3
BUILT = {"main-path"}
"""Parts of the manifest that are no longer planned."""
OURS = {"status", "tests", "deferred"}
HINT = "Run `make requirements`."


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, Any]]:
    return rules()


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    return marks()


def proofs(table: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for rule, entry in table.items():
        yield from ((rule, test) for test in entry.get("tests", []))


def test_every_mark_names_a_rule(
    table: dict[str, dict[str, Any]], found: dict[str, list[str]]
) -> None:
    assert {rule for ids in found.values() for rule in ids} - table.keys() == set()


def test_every_listed_test_exists_and_is_marked(
    table: dict[str, dict[str, Any]], found: dict[str, list[str]]
) -> None:
    missing = [(rule, test) for rule, test in proofs(table) if rule not in found.get(test, [])]
    assert missing == [], HINT


def test_every_mark_is_listed(
    table: dict[str, dict[str, Any]], found: dict[str, list[str]]
) -> None:
    listed = set(proofs(table))
    assert {(rule, test) for test, ids in found.items() for rule in ids} - listed == set(), HINT


def test_a_rule_is_done_exactly_when_tests_are_listed(table: dict[str, dict[str, Any]]) -> None:
    wrong = {
        rule: entry["status"]
        for rule, entry in table.items()
        if entry["status"] != ("done" if entry.get("tests") else "planned")
    }
    assert wrong == {}, HINT


def test_a_rule_of_a_part_that_is_built_holds_or_says_why_not(
    table: dict[str, dict[str, Any]],
) -> None:
    silent = [
        rule
        for rule, entry in table.items()
        if entry["part"] in BUILT and (entry["status"] == "done") == ("deferred" in entry)
    ]
    assert silent == []


def test_no_test_proves_more_than_three_rules(found: dict[str, list[str]]) -> None:
    crowded = {test: ids for test, ids in found.items() if len(ids) > MAX_RULES_OF_A_TEST}
    assert crowded == {}


def test_no_test_names_a_rule_twice(found: dict[str, list[str]]) -> None:
    assert {test: ids for test, ids in found.items() if len(ids) != len(set(ids))} == {}


@pytest.mark.skipif(
    not SEEDS.exists(), reason="the list of the seeds' rules is not beside the checkout"
)
def test_every_rule_of_the_seeds_is_present_and_unchanged(
    table: dict[str, dict[str, Any]],
) -> None:
    ours = {
        rule: {name: entry[name] for name in entry if name not in OURS}
        for rule, entry in table.items()
    }
    assert ours == rules(SEEDS)


def write_test(folder: Path, body: str) -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(f"import pytest\n\n\n{body}", encoding="utf-8")
    return tests


def test_marks_of_functions_and_of_methods_are_read(tmp_path: Path) -> None:
    tests = write_test(
        tmp_path,
        '@pytest.mark.requirement("one")\n@pytest.mark.requirement("two")\n'
        "async def test_a(): ...\n"
        'class TestB:\n    @pytest.mark.requirement("three")\n    def test_c(self): ...\n',
    )
    assert marks(tests) == {
        "tests/test_it.py::test_a": ["one", "two"],
        "tests/test_it.py::TestB::test_c": ["three"],
    }


@pytest.mark.parametrize("arguments", ["", "RULE", '"one", "two"', 'id="one"'])
def test_a_mark_that_cannot_be_read_is_an_error(tmp_path: Path, arguments: str) -> None:
    tests = write_test(tmp_path, f"@pytest.mark.requirement({arguments})\ndef test_a(): ...\n")
    with pytest.raises(MarkError, match="one rule as plain text"):
        marks(tests)


def test_an_update_lists_the_proofs_and_keeps_the_rest() -> None:
    before = MANIFEST.read_text(encoding="utf-8")
    first, second, *_ = rules()
    after = updated(before, {"tests/a.py::x": [first, second], "tests/a.py::y": [first]})
    assert (
        f"""status = "done"
tests = [
    "tests/a.py::x",
    "tests/a.py::y",
]

[rules.{second}]"""
        in after
    )
    assert updated(after, marks()) == updated(before, marks())
    assert [line for line in after.splitlines() if line.startswith("#")] == [
        line for line in before.splitlines() if line.startswith("#")
    ]
