"""Print which tests of a run failed, a line each: python -m scripts.failed CACHE.

They run once more, alone. Exits with 1, and says why, when there are too many for chance, or when
one of them must hold each time.
"""

import json
import sys
from pathlib import Path

MOST = 3
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
    "tests/unit/memory/test_index_faults",
)
"""Kills, races and what is played against a model: what they count must hold each time."""


def refusal(failed: list[str]) -> str:
    """Return why these tests get no second try, or an empty text."""
    if len(failed) > MOST:
        return f"{len(failed)} tests failed; up to {MOST} would run once more."
    final = [name for name in failed if name.startswith(FINAL)]
    return f"{final[0]} gets no second try." if final else ""


def main() -> None:
    """Run the command."""
    cache = Path(sys.argv[1], "v", "cache", "lastfailed")
    failed: list[str] = sorted(json.loads(cache.read_bytes())) if cache.exists() else []
    if why := refusal(failed):
        sys.exit(why)
    for name in failed:
        print(name)


if __name__ == "__main__":
    main()
