"""The page of benchmarks says of its figures what they say of themselves."""

import re

import pytest

from bench.__main__ import FOLDER, HELPERS, LONG, TABLE, missed
from scripts.requirements import ROOT

PAGE = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
HEAD = re.compile(
    r"^Measured on \d{4}-\d\d-\d\d( in several runs)?; meanwhile a fixed piece of Python took"
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


def test_figures_beyond_their_budgets_are_named_below_the_table() -> None:
    (told,) = re.findall(r"^Beyond (?:its|their) budgets?: (.*)\.$", PAGE, re.MULTILINE)
    assert missed(rows()) == re.findall(r"`([^`]+)`", told)


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
