"""A property that finds a planted defect finds it in the examples in which it is run."""

import ast
from pathlib import Path

import pytest

from scripts.requirements import ROOT

FILES = sorted((ROOT / "tests/property").glob("test_*.py"))


def own_settings(tree: ast.Module) -> list[int]:
    """Returns the lines on which a function makes settings of its own; a decorator is not in it."""
    functions = [
        one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
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


def test_settings_in_a_test_are_found() -> None:
    wrong = "def test_a() -> None:\n    @settings(max_examples=9)\n    def inner(): ...\n"
    right = "RUNS = settings()\n@settings(max_examples=9)\ndef test_a() -> None:\n    shown(RUNS)\n"
    assert own_settings(ast.parse(wrong + right)) == [2]
