"""Runs all benchmarks of this folder, or the named ones; `--save` also writes docs/benchmarks.md.

`--times 3` runs each of them three times, in turn, so that a neighbour disturbs all alike; of each
figure the median counts.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import SEPARATOR, figure, yardstick

FOLDER = Path(__file__).resolve().parent
DOCUMENT = FOLDER.parent / "docs" / "benchmarks.md"
TABLE = re.compile(r"^Measured on .*\n\n(\|.*\n)+\n(?:.* budgets?: .*\n)?", re.MULTILINE)
HELPERS = {"measure"}
BUDGET = re.compile(r"(?P<side><=|>=) (?P<limit>[\d.]+)")
LONG = {"memwal_recall", "memwal_tenants", "soak"}
"""Benchmarks of many minutes, which run only where they are named."""


def run(name: str, minutes: str | None) -> list[str]:
    """Runs one benchmark; returns its lines, or none if it could not run."""
    command = [sys.executable, "-m", f"bench.{name}"]
    if minutes and name in LONG:
        command += ["--minutes", minutes]
    with subprocess.Popen(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))  # an empty last field has a space before it
    return [] if process.returncode else lines


def number(text: str) -> float | None:
    """Returns the number that a measured value begins with, such as 3.37 or 0.13%."""
    matches = re.match(r"[\d.]+", text)
    return float(matches[0]) if matches else None


def parts(line: str) -> list[str]:
    """Returns name, budget, measured value and remarks."""
    return [part.strip() for part in line.split(SEPARATOR)]


def is_missed(line: str) -> bool:
    """Returns whether a figure exceeds its budget; an empty budget has no limit."""
    _, budget, measured, *_ = parts(line)
    limit, value = BUDGET.match(budget), number(measured)
    if limit is None or value is None:
        return False
    over = value - float(limit["limit"])
    return (over if limit["side"] == "<=" else -over) > 0


def missed(lines: Iterable[str]) -> list[str]:
    """Returns the names of figures beyond their budgets."""
    return [parts(line)[0] for line in lines if is_missed(line)]


def medians(runs: Sequence[Sequence[str]]) -> list[str]:
    """Returns of each figure the line of the run with its median, the higher of two in the middle.

    Each run has the same figures in the same order.
    """
    lines = []
    for same in zip(*runs, strict=True):
        ordered = sorted(same, key=lambda line: number(parts(line)[2]) or 0.0)
        lines.append(ordered[len(ordered) // 2])
    return lines


def row(name: str, line: str) -> str:
    """Returns the row of the table for a figure of a benchmark."""
    figure, budget, measured, *remarks = parts(line)
    shown_value = f"{measured} **missed**" if is_missed(line) else measured
    return "| " + SEPARATOR.join([figure, budget, shown_value, *remarks, f"`{name}`"]) + " |"


def merged(rows: dict[str, list[str]], table: str) -> dict[str, list[str]]:
    """Returns the rows of a table by benchmark, those of this run in the place of the earlier."""
    tables: dict[str, list[str]] = {}
    for line in table.splitlines():
        if line.startswith("| ") and line.endswith("` |"):
            tables.setdefault(line.rsplit("`", 2)[1], []).append(line)
    every = tables | rows
    return {name: every[name] for name in sorted(every)}


def save(results: dict[str, list[str]], marks: Sequence[float], times: int, *, some: bool) -> None:
    """Puts the figures of this run into the document; `some` keeps the rows of all others."""
    rows = {name: [row(name, line) for line in lines] for name, lines in results.items()}
    text = DOCUMENT.read_text("utf-8")
    before = TABLE.search(text)
    if before is None or len(TABLE.findall(text)) != 1:
        raise SystemExit(f"{DOCUMENT} has no place for the table")
    if some:
        rows = merged(rows, before[0])
        earlier = [int(ms) for ms in re.findall(r"(\d+) to (\d+) ms", before[0].splitlines()[0])[0]]
        marks = [*marks, *earlier]
    day = datetime.fromtimestamp(time.time(), UTC).date()  # noqa: TID251 - the day of the run
    of = "in one run" if times == 1 else f"in one run, each figure the median of {times}"
    of = "in several runs" if some else of
    head = (
        f"Measured on {day} {of}; meanwhile a fixed piece of Python took {min(marks):.0f} to"
        f" {max(marks):.0f} ms of CPU.\n\n"
        "| figure | budget | measured | measured beside it | benchmark |\n|---|---|---|---|---|\n"
    )
    lines = [line for of_one in rows.values() for line in of_one]
    beyond = [f"`{name.replace('`', '')}`" for name in missed(line[2:] for line in lines)]
    end = f"Missed budgets: {'; '.join(beyond) or 'none'}.\n"
    table = head + "".join(f"{line}\n" for line in lines) + f"\n{end}"
    DOCUMENT.write_text(TABLE.sub(lambda _: table, text), "utf-8")


def main() -> int:
    """Returns 1 if a benchmark could not run, or with `--strict` if a budget was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="all without any")
    parser.add_argument("--save", action="store_true", help="write docs/benchmarks.md again")
    parser.add_argument("--strict", action="store_true", help="fail when a budget is missed")
    parser.add_argument("--times", type=int, default=1, help="runs of each; the medians count")
    parser.add_argument("--minutes", help="of those that take many")
    options = parser.parse_args()
    every = {path.stem for path in FOLDER.glob("[a-z]*.py")} - HELPERS - LONG
    names = options.names or sorted(every)
    runs: dict[str, list[list[str]]] = {name: [] for name in names}
    marks = [yardstick()]
    for _ in range(options.times):
        for name in names:
            runs[name].append(run(name, options.minutes))
            marks.append(yardstick())
    failed = [name for name, lines in runs.items() if not all(lines)]
    results = {name: medians(lines) for name, lines in runs.items() if name not in failed}
    figure(
        "the same work, ms", "", f"{min(marks):.0f} to {max(marks):.0f}", "CPU; tells of neighbours"
    )
    if failed:
        print(f"could not run: {', '.join(failed)}", file=sys.stderr)
        return 1
    if options.save:
        save(results, marks, options.times, some=bool(options.names))
    beyond = missed(line for lines in results.values() for line in lines)
    if beyond:
        print(f"missed budgets: {'; '.join(beyond)}", file=sys.stderr)
    return 1 if beyond and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
