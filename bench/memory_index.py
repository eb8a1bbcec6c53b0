"""What it costs to index files, to look at them again, and to search them.

    python bench/memory_index.py [--files 10000] [--growth] [--vectors]

With `--vectors` each passage gets a random one of 384 numbers, and so does each question. CPU
seconds of the whole process. QMD 2.8.3 took 11.3 for 10,000 files of 1 KB and 1.5 for looking at
them again; the budgets are 4 and 0.5.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import numpy as np

from skerry.infra.clock import SystemClock
from skerry.memory.files import Places
from skerry.memory.filling import Settings
from skerry.memory.index import Index
from skerry.memory.searching import Weighing, search
from skerry.model.memory import MemoryQuestion

FILE_CHARS = 1000
QUERIES = 200
DIMS = 384
LOT = 2000
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
    # Summed once: for each file anew it costs more than the index does.
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    for number in range(files):
        chosen = rng.choices(words, cum_weights=weights, k=FILE_CHARS // 6)
        lines = [" ".join(chosen[at : at + 12]) for at in range(0, len(chosen), 12)]
        target = folder / f"{number % 100}" / f"{number}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(".\n".join(lines))
    return words


def embed(index: Index, numbers: np.random.Generator) -> None:
    """Give every passage a random vector, as a model would: a lot at a time."""
    with index.tables() as tables:
        ids = sorted(tables.ids())
    for begin in range(0, len(ids), LOT):
        some = ids[begin : begin + LOT]
        rows = numbers.standard_normal((len(some), DIMS)).astype("<f4")
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        index.embed(
            "bench/random", [(key, row.tobytes()) for key, row in zip(some, rows, strict=True)]
        )


def resident() -> float:
    """Return the memory of the process now, in MB; what is mapped from files counts."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(files: int, *, vectors: bool) -> None:
    rng = random.Random(7)  # noqa: S311 - reproducible data, not a secret
    numbers = np.random.default_rng(7)
    home = Path(tempfile.mkdtemp())
    (home / "workspace" / "memory").mkdir(parents=True)
    words = write(home / "workspace" / "memory", files, rng)
    index = Index(home / "main.sqlite", Settings(Places(home / "workspace")), SystemClock())
    try:
        first = cpu(index.sync)
        time.sleep(2.1)  # until then a file may be written again within the clock's grain
        index.sync()
        again = cpu(index.sync)
        index.freshen(60)
        look = min(cpu(lambda: index.freshen(60)) for _ in range(5))
        embedded = cpu(lambda: embed(index, numbers)) if vectors else 0.0

        def ask() -> None:
            with index.reading() as (tables, collection):
                text = " ".join(rng.choices(words[20:2000], k=6))
                vector = numbers.standard_normal(DIMS).astype(np.float32) if vectors else None
                search(tables, collection, MemoryQuestion(text), vector, Weighing(), 0)

        cold = cpu(ask)
        warm = sorted(cpu(ask) for _ in range(QUERIES))
        size = sum(one.stat().st_size for one in home.glob("main.*") if one.is_file())
        derived = sum(one.stat().st_size for one in home.rglob("main.derived/**/*"))
        with index.tables() as tables:
            chunks = len(tables.ids())
        print(
            f"{files} files, {chunks} passages: index {first:.2f} CPU s, again {again:.2f},"
            f" look before a search {look * 1000:.1f} ms, vectors {embedded:.2f} s,"
            f" derive {cold:.2f} s, query p50 {statistics.median(warm) * 1000:.1f}"
            f" p99 {warm[round(0.99 * QUERIES) - 1] * 1000:.1f} ms,"
            f" {size / 1e6:.0f} + {derived / 1e6:.0f} MB, resident {resident():.0f} MB, peak"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
    finally:
        index.close()
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--growth", action="store_true", help="a tenth, and ten times as many too")
    parser.add_argument("--vectors", action="store_true", help="with random ones of 384 numbers")
    given = parser.parse_args()
    for files in (
        (given.files // 10, given.files, given.files * 10) if given.growth else (given.files,)
    ):
        measure(files, vectors=given.vectors)


if __name__ == "__main__":
    main()
