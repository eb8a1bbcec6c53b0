"""Functions that the program does not have, so that cases of abuse are impossible."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import skerry

SOURCE = Path(skerry.__file__).parent
UNPACKS = {"tarfile", "zipfile", "shutil.unpack_archive"}
RUNS_WHAT_IT_READS = {"dill", "marshal", "pickle", "shelve", "yaml"}
EXECUTES = {"eval", "exec", "compile"}
UNPACKING = {
    "plugins/installing.py": {"zipfile"},
    "features/skill_registry/unpacking.py": {"tarfile", "zipfile"},
}
"""They install what the owner names; `test_installing.py` and `test_unpacking.py` try names that
lead out, links and size."""
LOADERS = {"plugins/folders.py", "plugins/packages.py"}
"""They run code that the owner named; `plugins.source` checks it."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Gives each file of the program, less what only tests use."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("testing/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def used(tree: ast.Module) -> set[str]:
    """Returns the modules that a file imports, and the names that it takes from them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module.partition(".")[0], *(f"{module}.{name.name}" for name in names)}
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                found.add(f"{module}.{name}")
            case _:
                pass
    return found


def called(tree: ast.Module) -> set[str]:
    """Returns the plain names that a file calls."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


@pytest.mark.abuse(81)
def test_no_archive_is_unpacked_but_wheels_skills_and_their_programs() -> None:
    found = {name: found for name, tree in trees() if (found := used(tree) & UNPACKS)}
    assert found == UNPACKING


@pytest.mark.abuse(89)
def test_no_format_is_read_that_can_run_code() -> None:
    found = {name: some for name, tree in trees() if (some := used(tree) & RUNS_WHAT_IT_READS)}
    assert found == {}


@pytest.mark.abuse(88)
def test_text_becomes_code_in_the_loaders_of_plugins_and_hooks_alone() -> None:
    found = {name for name, tree in trees() if called(tree) & EXECUTES}
    assert found == LOADERS


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("import zipfile", UNPACKS),
        ("from shutil import unpack_archive", UNPACKS),
        ("import shutil\nshutil.unpack_archive('x')", UNPACKS),
        ("from pickle import loads", RUNS_WHAT_IT_READS),
        ("import yaml.reader", RUNS_WHAT_IT_READS),
    ],
)
def test_each_of_them_would_be_found(source: str, kinds: set[str]) -> None:
    assert used(ast.parse(source)) & kinds


def test_a_call_of_eval_would_be_found() -> None:
    assert called(ast.parse("x = eval('1')")) & EXECUTES
