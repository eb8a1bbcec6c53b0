"""Whoever spoils a line sees whether the tests that are named for it fail, and for that reason."""

import subprocess
from pathlib import Path

import pytest

from scripts.mutate import FOLDER, Copy, Patch, fault, main

SOURCE = "def add(a, b):\n    return a + b\n"
TESTS = """\
import pytest
from skerry import sums

@pytest.fixture
def one():
    assert sums.add(1, 0) == 1
    return 1

@pytest.mark.parametrize("b", [0, 2])
def test_sum(b): assert sums.add(1, b) == 1 + b

def test_type(): assert isinstance(sums.add(1, 2), int)

def test_set_up(one): pass

def test_elsewhere(): pytest.skip("not here")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Makes a repository with one function and its tests."""
    root = tmp_path / "tree"
    for name, text in {
        "src/skerry/__init__.py": "",
        "src/skerry/sums.py": SOURCE,
        "tests/test_sums.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def patch(put: str, *tests: str, find: str = "return a + b") -> Patch:
    named = tuple(f"tests/test_sums.py::{one}" for one in tests)
    return Patch("It adds wrongly", ("promises",), "src/skerry/sums.py", find, put, named)


def test_what_each_test_came_to_is_told(tree: Path, tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy", tree)
    copy.make()
    tests = "test_sum", "test_type", "test_set_up", "test_elsewhere"

    def tried(put: str) -> list[str]:
        return list(copy.tried(patch(put, *tests)).values())

    assert tried("return a - b") == ["failed", "passed", "passed", "skipped"]
    assert tried("return 1.0 + a + b")[:3] == ["failed", "failed", "broken"]
    assert tried("return a + b\n\nimport nowhere") == ["not run"] * 4, "no proof of anything"
    assert (copy.root / "src/skerry/sums.py").read_text(encoding="utf-8") == SOURCE
    assert (tree / "src/skerry/sums.py").read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (patch("return a - b"), ""),
        (patch("return a - b", find="a"), "3 times"),
        (patch("return a - b", find="return b"), "0 times"),
        (patch("return a + b"), "changes nothing"),
        (patch("return a +"), "not Python"),
    ],
)
def test_a_patch_that_does_not_fit_is_found(tree: Path, one: Patch, why: str) -> None:
    assert why in fault(one, tree)
    assert bool(why) is bool(fault(one, tree))


def test_it_ends_with_one_when_a_test_stays_green(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = """\
[[patch]]
name = "It {what}"
of = ["promises"]
file = "src/skerry/sums.py"
find = "a + b"
put = "{put}"
tests = ["tests/test_sums.py::test_sum"]
"""
    wrong = entry.format(what="takes away", put="a - b")
    same = entry.format(what="turns about", put="b + a")
    (tree / FOLDER).mkdir()
    (tree / FOLDER / "sums.toml").write_text(wrong, encoding="utf-8")
    (tree / FOLDER / "words.toml").write_text(same, encoding="utf-8")
    assert main(["takes"], tree) == 0
    assert main([], tree) == 1
    out = capsys.readouterr().out
    assert "noticed: It takes away" in out
    assert "NOT NOTICED: It turns about" in out
    assert "passed: tests/test_sums.py::test_sum" in out
    assert main(["nothing like it"], tree) == 1, "nothing was tried"
