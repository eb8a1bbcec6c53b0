"""Print which tests of a run failed, a line each: python -m scripts.failed CACHE [--passed-alone].

They run once more, alone. Exits with 1, and says why, when there are too many for chance, or when
one of them must hold each time. With `--passed-alone` it writes them into tests/flaky.toml instead.
"""

import json
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Final

FLAKY: Final = Path(__file__).parents[1] / "tests/flaky.toml"
MOST = 3
SAID = "skerry/said"
"""Key in the cache of a run, where tests/conftest.py keeps the output of each failed test."""
SEED: Final = re.compile(r"SKERRY_SEED=\d+|@reproduce_failure\([^)]*\)|\bdt1-[\w+/=-]+")
LONGEST: Final = 400
"""Characters of what a test said that are kept."""
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
"""Kills, races and what is played against a model: what they count must hold each time."""


def refusal(failed: list[str]) -> str:
    """Returns why these tests get no second try, or an empty text."""
    if len(failed) > MOST:
        return f"{len(failed)} tests failed; up to {MOST} would run once more."
    final = [name for name in failed if name.startswith(FINAL)]
    return f"{final[0]} gets no second try." if final else ""


def entry(test: str, said: str, date: str) -> str:
    """Returns the entry of a test that passed only alone, as TOML.

    Args:
        test: Its id.
        said: How it failed in the crowd.
        date: The day, as `2026-02-07`.
    """
    seed = SEED.search(said)
    shown = {
        "test": test,
        "seed": seed[0] if seed else "the same examples as in every run",
        "said": said[:LONGEST].strip() or "nothing",
    }
    lines = [
        f"{key} = {json.dumps(_plain(text), ensure_ascii=False)}" for key, text in shown.items()
    ]
    return "\n".join(["", "[[flaky]]", f"date = {date}", *lines, ""])


def _plain(text: str) -> str:
    """Leaves out what a text of TOML may not have."""
    return text.encode(errors="replace").decode().replace("\x7f", "?")


def keep(failed: list[str], said: dict[str, str], file: Path = FLAKY) -> None:
    """Writes the tests into the list, and prints all that it names."""
    date = time.strftime("%Y-%m-%d")
    with file.open("a", encoding="utf-8") as flaky:
        flaky.writelines(entry(name, said.get(name, ""), date) for name in failed)
    listed = tomllib.loads(file.read_text(encoding="utf-8")).get("flaky", [])
    if listed:
        print("FAILED IN THE CROWD, PASSED ALONE; no issue is resolved while tests/flaky.toml has:")
        print(*(f"    {one['test']} ({one['date']})" for one in listed), sep="\n")


def main() -> None:
    """Runs the command."""
    cache = Path(sys.argv[1], "v")
    failed: list[str] = sorted(_read(cache / "cache/lastfailed"))
    if why := refusal(failed):
        sys.exit(why)
    if "--passed-alone" in sys.argv[2:]:
        keep(failed, _read(cache / SAID))
        return
    for name in failed:
        print(name)


def _read(file: Path) -> dict[str, str]:
    kept: dict[str, str] = json.loads(file.read_bytes()) if file.exists() else {}
    return kept


if __name__ == "__main__":
    main()
