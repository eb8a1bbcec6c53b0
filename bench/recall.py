"""Cost of finding passages: words, vectors, both, beside FTS5 and a full scan in the same run.

Texts are synthetic (words by Zipf's law), vectors lie around centres. Each size runs in a separate
process, so that its memory can be measured. The embedding of the question is not included.
"""

import random
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.measure import figure
from skerry_recall.collection import Collection
from skerry_recall.fuse import BEST, RankOptions, rank
from skerry_recall.numbers import Floats
from skerry_recall.passage import Passage
from skerry_recall.terms import Words

SIZES = (10_000, 100_000)
BUDGETS = {10_000: "<= 5", 100_000: "<= 12"}
DIMENSIONS = 384
WORDS = 120
"""Words of a passage."""
QUERIES = 60
QUESTION_WORDS = 6
"""Words of a question, each from another part of the vocabulary."""


def vocabulary() -> list[str]:
    """Returns 60,000 words that look like words."""
    letters = random.Random(3)  # noqa: S311 - the same words each time
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er")]
    return ["".join(letters.choices(syllables, k=letters.randint(1, 4))) for _ in range(60_000)]


def texts(count: int, words: Sequence[str]) -> list[str]:
    """Returns passages of words by Zipf's law."""
    generator = np.random.default_rng(5)
    drawn = np.minimum(generator.zipf(1.15, (count, WORDS)) - 1, 10**9) % len(words)
    return [" ".join([words[one] for one in row]) for row in drawn.tolist()]


def questions(count: int, words: Sequence[str]) -> list[str]:
    """Returns questions of common, rarer and rare words."""
    chosen = random.Random(11)  # noqa: S311 - the same questions each time
    spans = ((30, 200), (200, 1000), (1000, 5000), (5000, 30_000))
    return [
        " ".join(words[chosen.randrange(*spans[at % len(spans)])] for at in range(QUESTION_WORDS))
        for _ in range(count)
    ]


def vectors(count: int) -> tuple[Floats, Floats]:
    """Returns vectors around 500 centres away from the origin, as models have them; questions."""
    generator = np.random.default_rng(7)
    centres = generator.standard_normal((500, DIMENSIONS), np.float32)
    centres += 2 * generator.standard_normal(DIMENSIONS, np.float32)
    rows = centres[generator.integers(0, 500, count)]
    rows += generator.standard_normal((count, DIMENSIONS), np.float32)
    asked = rows[generator.integers(0, count, QUERIES)]
    asked = asked + 0.6 * generator.standard_normal(asked.shape, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, asked / np.linalg.norm(asked, axis=1, keepdims=True)


def cost(ask: Callable[[int], object]) -> tuple[float, float, float]:
    """Returns CPU ms of a question at the median and the 99th percentile, and median wall ms."""
    cpu: list[float] = []
    wall: list[float] = []
    for number in range(3):
        ask(number)
    for _ in range(3):
        for number in range(QUERIES):
            begin, used = time.perf_counter(), time.process_time()
            ask(number)
            cpu.append((time.process_time() - used) * 1e3)
            wall.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(cpu), statistics.quantiles(cpu, n=100)[98], statistics.median(wall)


def formatted(found: tuple[float, float, float]) -> str:
    return f"p99 {found[1]:.2f}, wall p50 {found[2]:.2f}"


def fts(passages: Sequence[str], folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "fts.sqlite")
    database.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    database.executemany("INSERT INTO t VALUES (?)", ((passage,) for passage in passages))
    database.commit()
    return database


def index(size: int, folder: Path) -> None:
    """Indexes, and prints the cost beside that of FTS5."""
    passages = texts(size, vocabulary())
    rows, asked = vectors(size)
    np.save(folder / "asked.npy", asked)
    begin = time.process_time()
    fts(passages, folder).close()
    fts_seconds = time.process_time() - begin
    collection = Collection(folder / "index")
    items = [Passage(at + 1, at // 8, at % 8, text) for at, text in enumerate(passages)]
    begin = time.process_time()
    collection.refresh(added=items)
    own_seconds = time.process_time() - begin
    figure(
        f"index {size} passages, words, CPU s",
        "<= 4" if size == SIZES[0] else "",
        f"{own_seconds:.2f}",
        f"FTS5 {fts_seconds:.2f}; {WORDS} words each",
    )
    begin = time.process_time()
    collection.refresh(vectors={at + 1: row for at, row in enumerate(rows)})
    figure(f"index {size} vectors, CPU s", "", f"{time.process_time() - begin:.2f}")
    begin = time.process_time()
    collection.refresh(removed=[1], added=[Passage(size + 1, size, 0, passages[0])])
    once = time.process_time() - begin
    figure(f"change one of {size} passages, CPU ms", "", f"{once * 1e3:.1f}")
    begin = time.process_time()
    collection.compact()
    figure(f"compact {size} passages, CPU s", "", f"{time.process_time() - begin:.2f}")
    disk = {path.name.split("-")[0]: path.stat().st_size for path in folder.glob("index/*")}
    figure(
        f"disk, {size} passages, MB",
        "",
        f"{sum(disk.values()) / 1e6:.0f}",
        f"words {disk['words'] / 1e6:.0f}, vectors {disk['vectors'] / 1e6:.0f};"
        f" FTS5 {(folder / 'fts.sqlite').stat().st_size / 1e6:.0f}",
    )


def search(size: int, folder: Path) -> None:
    """Searches the index by words, by vectors, and by both."""
    asked = questions(QUERIES, vocabulary())
    rows, expected = vectors(size)
    words = Words()
    begin = time.process_time()
    collection = Collection(folder / "index")
    terms = [dict.fromkeys(words.content(one), 1.0) for one in asked]
    rank(collection.scores(terms[0], expected[0]), BEST, 10, RankOptions())
    figure(
        f"first question, {size} passages, CPU ms",
        "",
        f"{(time.process_time() - begin) * 1e3:.1f}",
        "opens the files",
    )
    text = cost(lambda at: collection.scores(dict.fromkeys(words.content(asked[at]), 1.0)))
    near = cost(lambda at: collection.scores({}, expected[at]))
    both = cost(
        lambda at: rank(
            collection.scores(dict.fromkeys(words.content(asked[at]), 1.0), expected[at]),
            BEST,
            10,
            RankOptions(),
        )
    )
    database = sqlite3.connect(folder / "fts.sqlite")
    query = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10"
    joined = [" OR ".join(one.split()) for one in asked]
    peer = cost(lambda at: database.execute(query, (joined[at],)).fetchall())
    database.close()
    full = cost(lambda at: np.argpartition(-(rows @ expected[at]), 10)[:10])
    name = f"{size} passages, CPU ms p50"
    figure(f"words, {name}", "<= 15", f"{text[0]:.2f}", f"{formatted(text)}; FTS5 {peer[0]:.2f}")
    figure(
        f"vectors, {name}", "<= 2", f"{near[0]:.2f}", f"{formatted(near)}; numpy scan {full[0]:.2f}"
    )
    figure(f"both, ranked, {name}", BUDGETS[size], f"{both[0]:.2f}", formatted(both))
    hits = 0
    for question in expected:
        scores = collection.scores({}, question)
        assert scores.vector is not None
        found = set(scores.id[np.argsort(-scores.vector)[:10]].tolist())
        hits += len(found & set((np.argsort(-(rows @ question))[:10] + 1).tolist()))
    figure(f"vectors, recall@10 of {size}, %", ">= 99.5", f"{hits * 10 / QUERIES:.1f}")


def memory(size: int, folder: Path) -> None:
    """Searches both ways, and prints the resident memory."""
    asked = zip(questions(QUERIES, vocabulary()), np.load(folder / "asked.npy"), strict=True)
    words = Words()
    before = resident("VmRSS")
    collection = Collection(folder / "index")
    for question, expected in asked:
        terms = dict.fromkeys(words.content(question), 1.0)
        rank(collection.scores(terms, expected), BEST, 10, RankOptions())
    after = resident("VmRSS")
    figure(
        f"memory that {size} passages add, MB",
        "",
        f"{after - before:.0f}",
        f"{QUERIES} questions; mostly mapped files; Python and numpy alone have 34",
    )


def resident(name: str) -> float:
    """Returns a figure of this process's memory in MB."""
    status = Path("/proc/self/status").read_text("ascii").split()
    return int(status[status.index(f"{name}:") + 1]) * 1024 / 1e6


PARTS = {"index": index, "search": search, "memory": memory}


def main() -> None:
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
        return
    for size in SIZES:
        with TemporaryDirectory(prefix="skerry-") as folder:
            for part in PARTS:
                command = [sys.executable, "-m", "bench.recall", part, str(size), folder]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
