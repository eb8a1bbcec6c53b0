"""Runs the benchmarks of this folder, or those named; `--save` writes docs/benchmarks.md too."""

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
TABLE = re.compile(r"^Measured on .*\n\n(\|.*\n)+", re.MULTILINE)
HELPERS = {"measure"}
BUDGET = re.compile(r"(?P<side><=|>=) (?P<limit>[\d.]+)")
LONG = {"soak"}
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


def missed(lines: Iterable[str]) -> list[str]:
    """Returns the names of figures beyond their budgets; an empty budget is none."""
    beyond = []
    for line in lines:
        name, budget, measured, *_ = (part.strip() for part in line.split(SEPARATOR))
        limit, value = BUDGET.match(budget), re.match(r"[\d.]+", measured)
        if limit and value:
            over = float(value[0]) - float(limit["limit"])
            if (over if limit["side"] == "<=" else -over) > 0:
                beyond.append(name)
    return beyond


def save(found: dict[str, list[str]], marks: Sequence[float]) -> None:
    """Puts the figures of this run into the document."""
    rows = [
        "| " + SEPARATOR.join([*(part.strip() for part in line.split(SEPARATOR)), f"`{name}`"])
        for name, lines in found.items()
        for line in lines
    ]
    day = datetime.fromtimestamp(time.time(), UTC).date()  # noqa: TID251 - the day of the run
    head = (
        f"Measured on {day}; meanwhile a fixed piece of Python took {min(marks):.0f} to"
        f" {max(marks):.0f} ms of CPU.\n\n"
        "| figure | budget | measured | measured beside it | benchmark |\n|---|---|---|---|---|\n"
    )
    table = head + "".join(f"{row} |\n" for row in rows)
    text = TABLE.sub(lambda _: table, DOCUMENT.read_text("utf-8"))
    DOCUMENT.write_text(text, "utf-8")


def main() -> int:
    """Returns 1 if a benchmark could not run, or with `--strict` if a budget was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="all without any")
    parser.add_argument("--save", action="store_true", help="write docs/benchmarks.md anew")
    parser.add_argument("--strict", action="store_true", help="fail when a budget is missed")
    parser.add_argument("--minutes", help="of those that take many")
    given = parser.parse_args()
    every = {path.stem for path in FOLDER.glob("[a-z]*.py")} - HELPERS - LONG
    found: dict[str, list[str]] = {}
    marks = [yardstick()]
    for name in given.names or sorted(every):
        found[name] = run(name, given.minutes)
        marks.append(yardstick())
    figure(
        "the same work, ms", "", f"{min(marks):.0f} to {max(marks):.0f}", "CPU; tells of neighbours"
    )
    failed = [name for name, lines in found.items() if not lines]
    if failed:
        print(f"could not run: {', '.join(failed)}", file=sys.stderr)
        return 1
    if given.save:
        save(found, marks)
    beyond = missed(line for lines in found.values() for line in lines)
    if beyond:
        print(f"beyond their budgets: {'; '.join(beyond)}", file=sys.stderr)
    return 1 if beyond and given.strict else 0


if __name__ == "__main__":
    sys.exit(main())
