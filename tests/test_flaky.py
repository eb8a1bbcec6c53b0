"""The list of tests that passed only alone is complete: its tests exist, with time and reason."""

import datetime as dt
import tomllib
from typing import Any

import pytest

from scripts.failed import FINAL, FLAKY
from tests.support.listed import missing

KEYS = {"date", "said", "seed", "test"}
GOOD = {
    "date": dt.date(2026, 2, 7),
    "said": "assert 1 == 2",
    "seed": "SKERRY_SEED=1",
    "test": "tests/test_flaky.py::test_the_list_is_whole",
}


def wrong(entries: list[dict[str, Any]]) -> list[str]:
    """Returns the faults of a list; nothing if it is complete."""
    names = [str(entry.get("test")) for entry in entries]
    texts = [entry.get(key) for entry in entries for key in ("said", "seed")]
    checks = {
        "another key, or one is missing": any(entry.keys() != KEYS for entry in entries),
        "no date": not all(isinstance(entry.get("date"), dt.date) for entry in entries),
        "an empty text": not all(isinstance(text, str) and text.strip() for text in texts),
        "a test that there is not": bool(missing(name.partition("[")[0] for name in names)),
        "a test that gets no second try": any(name.startswith(FINAL) for name in names),
    }
    return [name for name, found in checks.items() if found]


def test_the_list_is_whole() -> None:
    assert wrong(tomllib.loads(FLAKY.read_text(encoding="utf-8")).get("flaky", [])) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"why": "?"}, ["another key, or one is missing"]),
        ({"date": "yesterday"}, ["no date"]),
        ({"said": " "}, ["an empty text"]),
        ({"test": "tests/test_flaky.py::test_gone"}, ["a test that there is not"]),
        (
            {"test": "tests/e2e/test_kills.py::test_gone"},
            ["a test that there is not", "a test that gets no second try"],
        ),
    ],
)
def test_a_fault_of_the_list_is_found(change: dict[str, Any], found: list[str]) -> None:
    assert wrong([GOOD | change]) == found
