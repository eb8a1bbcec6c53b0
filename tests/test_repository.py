"""Rules of the repository itself: the shape of files, and documents that name what exists."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts.requirements import ROOT
from scripts.shape import UNCLEAR, docstrings

MAX_LINES = 400
MAX_BYTES = 500_000
LONGER: dict[str, str] = {}
"""Files that may be longer than `MAX_LINES`, each with the reason."""

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
MAKE = re.compile(r"\bmake ([a-z-]+)\b")
CODE = re.compile(r"`[^`\n]+`|^(?: {4}|\t).*$", re.MULTILINE)


def tracked(*patterns: str) -> list[Path]:
    """Returns the files of the repository, also new ones that nothing ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()})


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


PYTHON = tracked("*.py")
DOCUMENTS = tracked("*.md")


def opening(tree: ast.Module) -> str:
    """Returns the fault of the docstring of a file, or an empty text."""
    first, *rest = (ast.get_docstring(tree) or "").splitlines() or [""]
    checks = {
        "no docstring": bool(first),
        "its first line has no end": first.endswith((".", ":")),
        "no empty line follows the first": not rest or not rest[0],
    }
    return next((fault for fault, good in checks.items() if not good), "")


def unclear(tree: ast.Module) -> list[str]:
    """Returns the docstrings, those of attributes included, that open without a noun or a verb."""
    return [f"{line}: {text}" for line, text in docstrings(tree) if UNCLEAR.match(text)]


def mocks(tree: ast.Module) -> set[str]:
    """Returns the mocking modules that a file imports."""
    imported = {
        module
        for node in ast.walk(tree)
        for module in (
            [f"{node.module}.{alias.name}" for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    return {one for one in imported if one.startswith(("unittest.mock", "mock.", "pytest_mock"))}


def test_python_files_say_first_what_they_are_are_short_and_mock_nothing() -> None:
    wrong: dict[str, object] = {}
    for path in PYTHON:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        tested = name(path).startswith(("tests/", "bench/"))
        ours = name(path).startswith("src/")
        long = len(text.splitlines()) > MAX_LINES and name(path) not in LONGER
        found = (
            opening(tree),
            "too long" * long,
            mocks(tree) if tested else set(),
            unclear(tree) if ours else [],
        )
        if any(found):
            wrong[name(path)] = found
    assert PYTHON
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no docstring"),
        ('"""Says"""', "its first line has no end"),
        ('"""Says.\nMore."""', "no empty line follows the first"),
        ('"""Says.\n\nMore."""', ""),
    ],
)
def test_a_bad_opening_is_found(text: str, fault: str) -> None:
    assert opening(ast.parse(text)) == fault


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Of the module."""', ["1: Of the module."]),
        ('a = 1\n"""Whether it is one."""', ["2: Whether it is one."]),
        ('class A:\n    """How."""\n    b: int = 1\n    """Number."""', ["2: How."]),
        ('def a():\n    """Return what is left."""', ["2: Return what is left."]),
        ('def a(self):\n    self.b = 2\n    """When it began."""', ["3: When it began."]),
        ('def a():\n    """Returns the rest."""\n    """Why? A text, no docstring."""', []),
        ('"""Whoever, Office, Whichever."""', []),
    ],
)
def test_an_unclear_docstring_is_found(text: str, found: list[str]) -> None:
    assert unclear(ast.parse(text)) == found


@pytest.mark.parametrize(
    "text",
    ["from unittest import mock", "import unittest.mock as m", "def f(): import pytest_mock"],
)
def test_a_mock_is_found(text: str) -> None:
    assert mocks(ast.parse(text))


def test_no_file_is_large() -> None:
    large = {name(path): path.stat().st_size for path in tracked()}
    assert {one: size for one, size in large.items() if size > MAX_BYTES} == {}


def test_the_links_of_documents_lead_somewhere() -> None:
    found = {path: LINK.findall(path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    gone = {
        name(path): [target for target in targets if not (path.parent / target).exists()]
        for path, targets in found.items()
    }
    assert any(found.values())
    assert {path: targets for path, targets in gone.items() if targets} == {}


def test_documents_name_only_targets_of_the_makefile() -> None:
    known = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    texts = {name(path): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    named = {path: set(MAKE.findall("\n".join(CODE.findall(text)))) for path, text in texts.items()}
    assert any(named.values())
    assert {path: targets - known for path, targets in named.items() if targets - known} == {}


def test_make_alone_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    printed = subprocess.run(["make"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert MAKE.findall(printed) == TARGET.findall(makefile)
    assert set(phony[1].split()) == set(TARGET.findall(makefile))


def test_the_node_packages_are_pinned_and_name_no_host() -> None:
    folder = ROOT / "tests" / "conformance" / "node"
    assert "http" not in (folder / "package.json").read_text(encoding="utf-8")
    assert '"resolved"' not in (folder / "package-lock.json").read_text(encoding="utf-8")


def test_changelog_fragments_have_a_known_type() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        types = {row["directory"] for row in tomllib.load(file)["tool"]["towncrier"]["type"]}
    fragments = [path.name for path in tracked("changelog.d/*.md") if path.name != "README.md"]
    shape = re.compile(r"(\d+|\+[a-z0-9-]+)\.(" + "|".join(sorted(types)) + r")\.md")
    assert [fragment for fragment in fragments if not shape.fullmatch(fragment)] == []
