"""The page of promises names tests that exist, for every complaint that the page must answer."""

import ast
import re

import pytest

from scripts.mutate import patches
from scripts.requirements import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")][1:]
COMPLAINTS = (
    "Memory is lost at compaction",
    "The compaction overflows itself",
    "A session vanishes after an error of the provider",
    "A session vanishes after a reconnect",
    "A session vanishes after an upgrade",
    "Replies come twice, or three times",
    "Session locks are stuck",
    "Replies are lost when a socket drops",
    "One cool-down poisons the fail-over",
    "Heartbeats burn tokens",
    "Empty output is taken for a reply",
    "One person is shown the context of another",
)


def names_in(path: str) -> set[str]:
    """Returns the names of a file's test functions."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    function_defs = [
        one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        function_def.name for function_def in function_defs if function_def.name.startswith("test_")
    }


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert name in names_in(path)


def test_every_complaint_is_answered_and_was_tried() -> None:
    assert {row[0].strip() for row in ROWS} >= set(COMPLAINTS)
    for row in ROWS:
        assert "::" in row[2], row
        assert row[3].strip(), row


ITSELF = {
    "test_killed_in_the_swap_one_index_or_the_other_is_whole": "It kills at each step itself."
}
"""Tests that do what the row was tried with."""


def test_what_a_row_was_tried_with_is_tried_again() -> None:
    patched = {test for patch in patches() if "promises" in patch.of for test in patch.tests}
    assert patched
    lost = []
    for row in ROWS:
        ((path, name),) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[2])
        again = re.search(r"`test_\w+`", row[3]) or name in ITSELF or f"{path}::{name}" in patched
        lost += [] if again else [name]
    assert lost == [], "keep the change as a patch in tests/mutations"


def test_a_companion_that_a_row_names_is_in_the_same_file() -> None:
    for row in ROWS:
        ((path, _),) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[2])
        assert set(re.findall(r"`(test_\w+)`", row[3])) <= names_in(path), row


def test_the_long_session_says_what_is_scripted_in_it() -> None:
    (row,) = [row for row in ROWS if "test_long_session" in row[2]]
    for words in ("`session_search` alone", "scripted model", "without notes"):
        assert words in row[1]
    test = (ROOT / "tests/e2e/test_long_session.py").read_text(encoding="utf-8")
    assert "MemoryFlush(enabled=False)" in test
