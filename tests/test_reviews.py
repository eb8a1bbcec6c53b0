"""Each finding of the reviews has tests that exist, or the reason why it stays; none is missing."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.mutate import FOLDER, patches
from scripts.requirements import ROOT
from tests.support.listed import missing

LIST: Final = ROOT / "tests" / "reviews.toml"
REVIEWS: Final = ROOT.parent / "shared" / "reference" / "review"
PAGES: Final = {"scale": "memory-at-scale"}
KINDS: Final = {"defect", "weakness"}
KEYS: Final = {"kind", "title", "tests", "reason", "left", "failed_before"}
NAMED: Final = re.compile(
    r"\*\*((?:D|Q|S)\d+[a-z]?)\b|^### (D\d+) |^(W\d+)\. |^(\d+)\. \*\*(?:DEFECT|WEAKNESS|GAP)",
    re.MULTILINE,
)
"""How the reviews number what they found; a number with parts has `-1`, `-2` behind it here."""

Entry = dict[str, Any]


def read(text: str) -> tuple[list[str], dict[str, Entry]]:
    """Returns the ids that there must be, and the entries by id (`review.finding`)."""
    table = tomllib.loads(text)
    whole = [f"{review}.{id_}" for review, ids in table.pop("whole").items() for id_ in ids]
    return whole, {f"{review}.{one}": e for review, ids in table.items() for one, e in ids.items()}


def faults(entry: Entry) -> list[str]:
    """Returns the faults of an entry; nothing if it is complete."""
    texts = [entry.get("title", ""), *(entry[key] for key in KEYS & entry.keys() if key != "tests")]
    tests: list[str] = entry.get("tests", [])
    checks = {
        "a key that there is not": not entry.keys() <= KEYS,
        "no kind": entry.get("kind") not in KINDS,
        "an empty text": not all(isinstance(text, str) and text.strip() for text in texts),
        "a title without an end": not str(entry.get("title")).endswith("."),
        "an empty list": tests == [] and "tests" in entry,
        "neither tests nor a reason": not tests and "reason" not in entry,
        "tests and a reason": bool(tests) and "reason" in entry,
        "a defect without a test": entry.get("kind") == "defect" and not tests,
        "a defect that no test was seen to find": entry.get("kind") == "defect"
        and "failed_before" not in entry,
        "a test twice": len(set(tests)) != len(tests),
        "a rest of nothing": "left" in entry and not tests,
    }
    return [name for name, wrong in checks.items() if wrong]


@pytest.fixture(scope="module")
def table() -> tuple[list[str], dict[str, Entry]]:
    return read(LIST.read_text(encoding="utf-8"))


def test_every_finding_is_there_once_and_in_order(
    table: tuple[list[str], dict[str, Entry]],
) -> None:
    whole, entries = table
    assert list(entries) == whole
    assert len(set(whole)) == len(whole)


def test_a_finding_has_tests_or_a_reason_and_says_what_it_is(
    table: tuple[list[str], dict[str, Entry]],
) -> None:
    assert {name: wrong for name, row in table[1].items() if (wrong := faults(row))} == {}


def test_every_test_that_is_named_exists(table: tuple[list[str], dict[str, Entry]]) -> None:
    assert missing(test for row in table[1].values() for test in row.get("tests", [])) == set()


def test_what_was_made_again_is_kept_as_a_patch(table: tuple[list[str], dict[str, Entry]]) -> None:
    notes = {name: row.get("failed_before", "") for name, row in table[1].items()}
    kept = {of for patch in patches() for of in patch.of}
    made = {name for name, note in notes.items() if FOLDER.as_posix() in note}
    assert made
    assert made - kept == set()
    assert {name for name, note in notes.items() if note.startswith("By import")} - made == set()


@pytest.mark.skipif(not REVIEWS.exists(), reason="the reviews are not beside the checkout")
def test_what_the_reviews_number_is_in_the_list(
    table: tuple[list[str], dict[str, Entry]],
) -> None:
    for review in {name.partition(".")[0] for name in table[0]}:
        text = (REVIEWS / f"{PAGES.get(review, review)}.md").read_text(encoding="utf-8")
        numbers = {"".join(found) for found in NAMED.findall(text)}
        ours = {
            name.partition(".")[2].partition("-")[0]
            for name in table[0]
            if name.startswith(f"{review}.")
        }
        assert numbers - ours == set(), review


WHOLE: Final = {
    "kind": "defect",
    "title": "It fails.",
    "tests": ["tests/test_reviews.py::test_x"],
    "failed_before": "Fails: test_x.",
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"tests": []}, "neither tests nor a reason"),
        ({"tests": [], "reason": "Later."}, "a defect without a test"),
        ({"tests": ["a::test_b", "a::test_b"]}, "a test twice"),
        ({"title": " "}, "an empty text"),
        ({"kind": "wish"}, "no kind"),
        ({"state": "done"}, "a key that there is not"),
        ({"reason": "It is meant so."}, "tests and a reason"),
    ],
)
def test_an_entry_that_says_nothing_is_found(change: Entry, fault: str) -> None:
    assert faults(WHOLE) == []
    assert fault in faults(WHOLE | change)


def test_a_test_that_is_not_collected_is_missed(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "def test_a(): ...\ndef helper(): ...\nclass TestB:\n    def test_c(self): ...\n"
        "class Other:\n    def test_d(self): ...\n"
    )
    (tmp_path / "two.py").write_text("def test_e(): ...\n")
    there = {"test_one.py::test_a", "test_one.py::TestB::test_c"}
    not_there = {
        "test_one.py::helper",
        "test_one.py::Other::test_d",
        "two.py::test_e",
        "test_three.py::test_f",
    }
    assert missing(there | not_there, tmp_path) == not_there
