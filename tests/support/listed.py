"""Reads which tests there are, without importing them: for the lists that name tests."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.requirements import ROOT


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Returns the functions at the top of a file."""
    body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
    return [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def collected(path: Path) -> Iterator[str]:
    """Yields what pytest collects of a file, as `name` or `Class::name`."""
    if not (path.is_file() and path.name.startswith("test_")):
        return
    for one in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=kind, body=body) if kind.startswith("Test"):
                yield from (
                    f"{kind}::{of.name}"
                    for of in body
                    if isinstance(of, ast.FunctionDef | ast.AsyncFunctionDef)
                )


def missing(named: Iterable[str], root: Path = ROOT) -> set[str]:
    """Returns which of these tests (`tests/file.py::name`) do not exist, or are not collected."""
    expected = set(named)
    there = {
        f"{file}::{name}"
        for file in {one.partition("::")[0] for one in expected}
        for name in collected(root / file)
        if name.rpartition("::")[2].startswith("test_")
    }
    return expected - there
