"""Prints the failed tests of a run, one per line: python -m scripts.failed CACHE [--passed-alone].

The tests then run again, alone. Exits with code 1 and a reason if too many tests failed, or if one
of them must pass each time. With `--passed-alone` it appends them to tests/flaky.toml instead.
"""

import json
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Final

FLAKY: Final = Path(__file__).parents[1] / "tests/flaky.toml"
MAX_FAILED = 3
OUTPUTS = "skerry/said"
"""Key in the cache of a run for the output of each failed test; tests/conftest.py writes it."""
SEED: Final = re.compile(r"SKERRY_SEED=\d+|@reproduce_failure\([^)]*\)|\bdt1-[\w+/=-]+")
MAX_CHARS: Final = 400
"""Characters of the output of a test in its entry."""
FINAL = (
    "tests/e2e/test_chaos",
    "tests/e2e/test_forgetting_kills",
    "tests/e2e/test_kills",
    "tests/e2e/test_recovery",
    "tests/e2e/test_full_disk",
    "tests/e2e/test_memory_worker_dies",
    "tests/e2e/test_rolled_back",
    "tests/property/test_ledger",
    "tests/property/test_outbox",
    "tests/property/test_queue",
    "tests/unit/app/test_races",
    "tests/unit/app/test_stuck",
    "tests/unit/features/memory/test_index_faults",
)
"""Tests that must pass each time: kills, races, and properties against a model."""


def refusal(failed: list[str]) -> str:
    """Returns the reason why these tests do not run again, or an empty text."""
    if len(failed) > MAX_FAILED:
        return f"{len(failed)} tests failed; up to {MAX_FAILED} would run once more."
    final = [name for name in failed if name.startswith(FINAL)]
    return f"{final[0]} gets no second try." if final else ""


def entry(test: str, output: str, date: str) -> str:
    """Returns the entry of a test that passed only alone, as TOML.

    Args:
        test: Its id.
        output: Its output when it failed among the others.
        date: The day, as `2026-02-07`.
    """
    seed = SEED.search(output)
    fields = {
        "test": test,
        "seed": seed[0] if seed else "the same examples as in every run",
        "said": output[:MAX_CHARS].strip() or "nothing",
    }
    lines = [
        f"{key} = {json.dumps(_plain(text), ensure_ascii=False)}" for key, text in fields.items()
    ]
    return "\n".join(["", "[[flaky]]", f"date = {date}", *lines, ""])


def _plain(text: str) -> str:
    """Replaces the characters that TOML does not allow."""
    return text.encode(errors="replace").decode().replace("\x7f", "?")


def keep(failed: list[str], outputs: dict[str, str], file: Path = FLAKY) -> None:
    """Appends the tests to the list, and prints the whole list."""
    date = time.strftime("%Y-%m-%d")
    with file.open("a", encoding="utf-8") as flaky:
        flaky.writelines(entry(name, outputs.get(name, ""), date) for name in failed)
    listed = tomllib.loads(file.read_text(encoding="utf-8")).get("flaky", [])
    if listed:
        print("FAILED IN THE CROWD, PASSED ALONE; no issue is resolved while tests/flaky.toml has:")
        print(*(f"    {row['test']} ({row['date']})" for row in listed), sep="\n")


def main() -> None:
    """Runs the command."""
    cache = Path(sys.argv[1], "v")
    failed: list[str] = sorted(_read(cache / "cache/lastfailed"))
    if reason := refusal(failed):
        sys.exit(reason)
    if "--passed-alone" in sys.argv[2:]:
        keep(failed, _read(cache / OUTPUTS))
        return
    for name in failed:
        print(name)


def _read(file: Path) -> dict[str, str]:
    content: dict[str, str] = json.loads(file.read_bytes()) if file.exists() else {}
    return content


if __name__ == "__main__":
    main()
