"""Cost of indexing files, of looking at them again, and of searching them.

    python -m bench.memory_index [--files 10000] [--growth] [--vectors]

With `--vectors` each passage gets a random one of 384 numbers, and so does each question. A query
is what the built-in memory does for one, from the event loop and back. CPU seconds of the whole
process. QMD 2.8.3 took 11.3 for 10,000 files of 1 KB and 1.5 for looking at
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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import anyio
import numpy as np

from bench.measure import figure
from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryMode, MemoryQuestion
from skerry.model.redaction import Redaction
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.numbers import Floats

FILE_CHARS = 1000
QUERIES = 200
DIMS = 384
BATCH = 2000
BUDGETED = 10_000
"""Files, of 1 KB, for which the budgets are."""
WORDS = 20_000


async def cpu(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.process_time()
    await work()
    return time.process_time() - begin


def write(folder: Path, files: int, rng: random.Random) -> list[str]:
    """Writes files of words with the frequencies of a language."""
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


@dataclass(frozen=True, slots=True)
class Random:
    """A model that answers at once, with vectors that mean nothing. Implements `embed.Embedder`."""

    numbers: np.random.Generator
    model: EmbeddingModel
    local: bool = True
    bulk: int = BATCH
    dims: int = DIMS

    async def embed(self, texts: Sequence[str], _: Kind) -> Floats:
        rows = self.numbers.standard_normal((len(texts), DIMS), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


class Timed(Index):
    """An index that adds up the cost of its derived data."""

    derived = 0.0
    """CPU seconds."""

    def derive(self) -> None:
        begin = time.process_time()
        super().derive()
        self.derived += time.process_time() - begin


async def forgetting(memory: BuiltinMemory, folder: Path) -> float:
    """Returns the CPU seconds of forgetting a word that was removed from its only file."""
    path = folder / "0" / "0.md"
    text = path.read_text()
    path.write_text(f"{text}.\nThe code is zebrafinch.\n")
    await memory.read()
    path.write_text(text)
    return await cpu(partial(memory.forget, Redaction(["zebrafinch"])))


def weight(home: Path, pattern: str) -> int:
    """Returns the bytes of the files that match."""
    return sum(path.stat().st_size for path in home.glob(pattern) if path.is_file())


def resident() -> float:
    """Returns the present memory of the process in MB, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def indexing(memory: BuiltinMemory, index: Timed, files: int) -> None:
    """Prints the cost of indexing the files, of deriving the search data, and of a second read."""
    first = await cpu(memory.read) - index.derived
    derived = index.derived
    await anyio.sleep(2.1)  # until then a file may be written again within the clock's grain
    await memory.read()
    second_read = await cpu(memory.read)
    figure(
        f"index {files} small files, CPU s",
        f"<= {4 * files / BUDGETED:g}",
        f"{first:.2f}",
        f"again, nothing changed: {second_read:.2f} (budget {files / BUDGETED / 2:g})",
    )
    figure(f"derive what is searched of {files} small files, CPU s", "", f"{derived:.2f}")


async def measure(files: int, *, vectors: bool) -> None:
    rng = random.Random(7)  # noqa: S311 - reproducible data, not a secret
    model = Random(np.random.default_rng(7), EmbeddingModel("bench", "random")) if vectors else None
    home = Path(tempfile.mkdtemp())
    (home / "workspace" / "memory").mkdir(parents=True)
    words = write(home / "workspace" / "memory", files, rng)
    index = Timed(
        home / "main.sqlite", IndexSettings(MemoryPaths(home / "workspace")), SystemClock()
    )
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), embedder=lambda: model)
    try:
        await indexing(memory, index, files)
        index.freshen(60)
        begin = time.process_time()
        index.freshen(60)
        look = time.process_time() - begin
        embedded = await cpu(memory.embed)

        async def ask() -> None:
            answer = await memory.search(MemoryQuestion(" ".join(rng.choices(words[20:2000], k=6))))
            assert (answer.mode is MemoryMode.HYBRID) == vectors, answer

        cold = await cpu(ask)
        warm = sorted([await cpu(ask) for _ in range(QUERIES)])
        size, beside = weight(home, "main.*"), weight(home, "main.derived/**/*")
        chunks = (await memory.status()).chunks
        figure(
            f"search {chunks} passages of {files} files, CPU ms p50",
            "",
            f"{statistics.median(warm) * 1000:.1f}",
            f"p99 {warm[round(0.99 * QUERIES) - 1] * 1000:.1f}; look before a search"
            f" {look * 1000:.1f} ms, vectors {embedded:.2f} s, first search {cold:.2f} s,"
            f" {size / 1e6:.0f} + {beside / 1e6:.0f} MB, resident {resident():.0f} MB, peak"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
        )
        forget = await forgetting(memory, home / "workspace" / "memory")
        figure(f"forget a word of one of {files} files, CPU s", "", f"{forget:.2f}", "index alone")
    finally:
        index.close()
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--growth", action="store_true", help="a tenth, and ten times as many too")
    parser.add_argument("--vectors", action="store_true", help="with random ones of 384 numbers")
    options = parser.parse_args()
    for files in (
        (options.files // 10, options.files, options.files * 10)
        if options.growth
        else (options.files,)
    ):
        anyio.run(partial(measure, files, vectors=options.vectors))


if __name__ == "__main__":
    main()
