"""Each known abuse case has tests that exist, or the reason why it cannot be tried yet."""

import ast
import tomllib
from typing import Any, Final

import pytest

from scripts.requirements import ROOT
from tests.support.listed import functions, missing

LIST: Final = ROOT / "tests" / "abuse.toml"
CASES: Final = range(1, 125)
KEYS: Final = {"what", "tests", "reason", "left"}


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["cases"]
    return table


def marked() -> set[tuple[str, str]]:
    """Returns the cases that tests name, each with the test."""
    found: set[tuple[str, str]] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "node_modules" in path.parts or "mark.abuse" not in path.read_text(encoding="utf-8"):
            continue
        where = path.relative_to(ROOT).as_posix()
        for test in functions(path):
            for mark in test.decorator_list:
                match mark:
                    case ast.Call(
                        func=ast.Attribute(attr="abuse"), args=[ast.Constant(value=int(number))]
                    ):
                        found.add((str(number), f"{where}::{test.name}"))
                    case _:
                        assert "mark.abuse" not in ast.unparse(mark), f"{where}: one number"
    return found


def test_every_case_is_there_once(cases: dict[str, dict[str, Any]]) -> None:
    assert list(cases) == [str(number) for number in CASES]


def test_a_case_has_tests_or_a_reason_and_says_what_it_is(
    cases: dict[str, dict[str, Any]],
) -> None:
    for number, case in cases.items():
        assert case.keys() <= KEYS, number
        assert bool(case.get("tests")) != bool(case.get("reason")), number
        texts = [case["what"], *(case[one] for one in ("reason", "left") if one in case)]
        assert all(isinstance(text, str) and text.strip() for text in texts), number
        assert case["what"].endswith("."), number
        assert "left" not in case or "tests" in case, f"{number}: the reason says it all"


def test_every_test_that_is_named_exists(cases: dict[str, dict[str, Any]]) -> None:
    assert missing(test for case in cases.values() for test in case.get("tests", [])) == set()


def test_a_test_is_named_once_by_a_case(cases: dict[str, dict[str, Any]]) -> None:
    doubled = [
        number for number, case in cases.items() if len(set(t := case.get("tests", []))) != len(t)
    ]
    assert doubled == []


def test_every_test_that_names_a_case_is_listed_there(cases: dict[str, dict[str, Any]]) -> None:
    listed = {(number, test) for number, case in cases.items() for test in case.get("tests", [])}
    assert marked() - listed == set()
