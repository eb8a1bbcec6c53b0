"""What it costs to index files, to look at them again, and to search them; by words alone.

    python bench/memory_index.py [--files 10000] [--growth]

CPU seconds of the whole process. QMD 2.8.3 took 11.3 for 10,000 files of 1 KB and 1.5 for looking
at them again; the budgets are 4 and 0.5.
"""

import argparse
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from skerry.infra.clock import SystemClock
from skerry.memory.files import Places
from skerry.memory.filling import Settings
from skerry.memory.index import Index
from skerry.memory.searching import Weighing, search
from skerry.model.memory import MemoryQuestion

FILE_CHARS = 1000
QUERIES = 100
WORDS = 20_000


def cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def write(folder: Path, files: int, rng: random.Random) -> list[str]:
    """Write files of words that are as uneven as those of a language."""
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))
        for _ in range(WORDS)
    ]
    weights = [1 / (rank + 2) for rank in range(WORDS)]
    for number in range(files):
        chosen = rng.choices(words, weights, k=FILE_CHARS // 6)
        lines = [" ".join(chosen[at : at + 12]) for at in range(0, len(chosen), 12)]
        target = folder / f"{number % 100}" / f"{number}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(".\n".join(lines))
    return words


def measure(files: int) -> None:
    rng = random.Random(7)  # noqa: S311 - reproducible data, not a secret
    home = Path(tempfile.mkdtemp())
    (home / "workspace" / "memory").mkdir(parents=True)
    words = write(home / "workspace" / "memory", files, rng)
    index = Index(home / "main.sqlite", Settings(Places(home / "workspace")), SystemClock())
    try:
        first = cpu(index.sync)
        time.sleep(2.1)  # until then a file may be written again within the clock's grain
        index.sync()
        again = cpu(index.sync)
        look = cpu(lambda: index.freshen(1))

        def ask() -> None:
            with index.reading() as (tables, collection):
                text = " ".join(rng.choices(words[20:2000], k=6))
                search(tables, collection, MemoryQuestion(text), None, Weighing(), 0)

        cold = cpu(ask)
        warm = statistics.median(cpu(ask) for _ in range(QUERIES))
        size = sum(one.stat().st_size for one in home.glob("main.*") if one.is_file())
        derived = sum(one.stat().st_size for one in home.rglob("main.derived/**/*"))
        with index.tables() as tables:
            chunks = len(tables.ids())
        print(
            f"{files} files, {chunks} passages: index {first:.2f} CPU s, again {again:.2f},"
            f" look before a search {look * 1000:.0f} ms, derive {cold:.2f} s, query"
            f" {warm * 1000:.1f} ms, {size / 1e6:.0f} + {derived / 1e6:.0f} MB, peak"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
    finally:
        index.close()
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--growth", action="store_true", help="a tenth, and ten times as many too")
    given = parser.parse_args()
    for files in (
        (given.files // 10, given.files, given.files * 10) if given.growth else (given.files,)
    ):
        measure(files)


if __name__ == "__main__":
    main()
