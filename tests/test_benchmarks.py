"""The page of benchmarks contains the figures that the benchmarks print."""

import re

import pytest

from bench.__main__ import FOLDER, HELPERS, LONG, TABLE, is_missed, medians, merged, missed, row
from scripts.requirements import ROOT

PAGE = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
HEAD = re.compile(
    r"^Measured on \d{4}-\d\d-\d\d in (several runs|one run(, each figure the median of \d+)?);"
    r" meanwhile a fixed piece of Python took"
    r" \d+ to \d+ ms of CPU\.$",
    re.MULTILINE,
)


def rows() -> list[str]:
    table = TABLE.search(PAGE)
    assert table
    lines = [line for line in table[0].splitlines() if line.startswith("| ")][1:]
    return [line.removeprefix("| ") for line in lines]


def test_the_heading_is_the_program_s_and_every_benchmark_has_rows() -> None:
    table = TABLE.search(PAGE)
    assert table
    assert HEAD.match(table[0].splitlines()[0])
    programs = {path.stem for path in FOLDER.glob("[a-z]*.py")} - HELPERS - LONG
    assert {line.rsplit("`", 2)[1] for line in rows()} == programs


def test_missed_budgets_are_marked_in_their_rows_and_named_below_the_table() -> None:
    (named,) = re.findall(r"^Missed budgets: (.*)\.$", PAGE, re.MULTILINE)
    names = [] if named == "none" else re.findall(r"`([^`]+)`", named)
    assert [name.replace("`", "") for name in missed(rows())] == names
    assert rows()
    assert [line for line in rows() if ("**missed**" in line) != is_missed(line)] == []


def test_of_several_runs_a_figure_has_its_median_never_the_best() -> None:
    runs = [[f"a, ms | <= 3 | {a} | x", f"b |  | {b}% | y"] for a, b in ((2, 9), (4, 7), (3, 8))]
    assert medians(runs) == ["a, ms | <= 3 | 3 | x", "b |  | 8% | y"]
    assert medians(runs[:2]) == [runs[1][0], runs[0][1]], "of two the worse or the higher"
    assert row("turn", runs[1][0]) == "| a, ms | <= 3 | 4 **missed** | x | `turn` |"
    assert row("turn", runs[0][0]) == "| a, ms | <= 3 | 2 | x | `turn` |"


def test_what_a_turn_costs_later_is_a_figure_with_a_budget() -> None:
    (row,) = [line for line in rows() if line.startswith("CPU per turn until at rest")]
    assert "| <= 15 |" in row
    assert missed([row]) == []


@pytest.mark.parametrize(
    ("line", "beyond"),
    [
        ("a turn, ms | <= 3 | 3.1 | beside", ["a turn, ms"]),
        ("a turn, ms | <= 3 | 3.0 | beside", []),
        ("turns/s | >= 350 | 349 |", ["turns/s"]),
        ("idle CPU | <= 0.5 % | 0.61% | over 10 s", ["idle CPU"]),
        ("no budget |  | 9000 | beside", []),
    ],
)
def test_a_missed_budget_is_found(line: str, beyond: list[str]) -> None:
    assert missed([line]) == beyond


def test_a_run_of_some_benchmarks_keeps_the_rows_of_the_others() -> None:
    table = (
        "head\n\n| figure |\n|---|\n| a | <= 1 | 2 **missed** | | `one` |\n| b | | 3 | | `two` |\n"
    )
    rows = merged({"two": ["| b | | 4 | | `two` |"], "three": ["| c | | 5 | | `three` |"]}, table)
    assert list(rows) == ["one", "three", "two"]
    assert rows["one"] == ["| a | <= 1 | 2 **missed** | | `one` |"]
    assert rows["two"] == ["| b | | 4 | | `two` |"]
