"""A property that finds a planted defect finds it in the examples in which it is run."""

import ast
from pathlib import Path

import pytest

from scripts.requirements import ROOT
from tests.support import shown

FILES = sorted((ROOT / "tests/property").glob("test_*.py"))


def own_settings(tree: ast.Module) -> list[int]:
    """Returns the lines on which a function makes settings of its own; a decorator is not in it."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        call.lineno
        for function in functions
        for statement in function.body
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "settings"
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda one: one.stem)
def test_a_defect_is_shown_with_the_settings_of_the_run(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert own_settings(tree) == [], "take tests.support.shown.shown(RUNS)"


def fixed_numbers(tree: ast.Module) -> list[int]:
    """Returns the lines of settings whose examples are a plain number."""
    return [
        keyword.value.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "max_examples" and isinstance(keyword.value, ast.Constant)
    ]


def test_no_property_has_a_number_of_examples_that_exploring_does_not_widen() -> None:
    assert fixed_numbers(ast.parse("a = settings(max_examples=9)")) == [1]
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "hypothesis" in path.read_text()
    ]
    assert files
    wrong = {path.name: fixed_numbers(ast.parse(path.read_text("utf-8"))) for path in files}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_exploring_takes_ten_times_as_many_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (shown.examples(4), shown.profile().derandomize) == (4, True)
    monkeypatch.setattr(shown, "EXPLORES", True)
    assert (shown.examples(4), shown.profile().derandomize) == (40, False)
    assert shown.profile().max_examples == 10 * shown.EXAMPLES


def test_settings_in_a_test_are_found() -> None:
    wrong = "def test_a() -> None:\n    @settings(max_examples=9)\n    def inner(): ...\n"
    right = "RUNS = settings()\n@settings(max_examples=9)\ndef test_a() -> None:\n    shown(RUNS)\n"
    assert own_settings(ast.parse(wrong + right)) == [2]
