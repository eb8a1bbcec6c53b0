"""Rules of the repository itself: the shape of files, and documents that name what exists."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts.requirements import ROOT

MOST_LINES = 400
MOST_BYTES = 500_000
LONGER: dict[str, str] = {}
"""Files that may be longer than `MOST_LINES`, each with the reason."""

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
MAKE = re.compile(r"\bmake ([a-z-]+)\b")
CODE = re.compile(r"`[^`\n]+`|^(?: {4}|\t).*$", re.MULTILINE)


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository, also new ones that nothing ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()})


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


PYTHON = tracked("*.py")
DOCUMENTS = tracked("*.md")


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_python_file_opens_with_one_line_that_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    assert docstring, "no docstring"
    first, *rest = docstring.splitlines()
    assert first.endswith((".", ":"))
    assert not rest or not rest[0], "an empty line follows the first"


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_python_file_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES or name(path) in LONGER


@pytest.mark.parametrize("path", tracked("tests/*.py", "bench/*.py"), ids=name)
def test_nothing_is_mocked(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
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
    mocks = {one for one in imported if one.startswith(("unittest.mock", "mock.", "pytest_mock"))}
    assert mocks == set()


def test_no_file_is_large() -> None:
    large = {name(path): path.stat().st_size for path in tracked()}
    assert {one: size for one, size in large.items() if size > MOST_BYTES} == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_the_links_of_a_document_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [one for one in targets if not (path.parent / one).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_document_names_only_targets_of_the_makefile(path: Path) -> None:
    known = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    code = "\n".join(CODE.findall(path.read_text(encoding="utf-8")))
    assert set(MAKE.findall(code)) - known == set()


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
        types = {one["directory"] for one in tomllib.load(file)["tool"]["towncrier"]["type"]}
    fragments = [path.name for path in tracked("changelog.d/*.md") if path.name != "README.md"]
    shape = re.compile(r"(\d+|\+[a-z0-9-]+)\.(" + "|".join(sorted(types)) + r")\.md")
    assert [one for one in fragments if not shape.fullmatch(one)] == []
