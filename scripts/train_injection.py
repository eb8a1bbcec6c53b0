"""Trains the detector of injected instructions and writes its weights.

`python -m scripts.train_injection --data FILE` takes the labelled texts of FILE (a JSON object a
line: text, label, group, source, kind, license; MIT and CC0 rows alone), the texts of
`scripts/injection/`, which are ours (CC0), and parts of this project's documents and source. It
prints the recall and the false alarms of a
cross-validation over groups, and of each source left out, then writes the weights of all. The same
files give the same weights.
"""

import argparse
import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from skerry.policy import injection
from skerry.policy.folding import fold
from skerry.policy.injection import HEADER, MAGIC, decided, marked
from skerry.policy.injection_features import BUCKETS, features

OWN: Final = Path(__file__).parent / "injection"
TARGET: Final = Path(injection.__file__).with_name("injection_weights.bin")
FOLDS: Final = 5
DECAY: Final = 1e-3
ROUNDS: Final = 250
FALSE_ALARMS: Final = 0.01
"""Share of harmless texts of the cross-validation that may be flagged; sets the bias."""
LICENSES: Final = {"MIT", "CC0-1.0"}
PROJECT: Final = Path(__file__).parents[1]
PARTS: Final = 800
"""Parts of this project that are learnt as harmless, and as many with an attack within."""
_PART: Final = 900
_PARTS_OF_FILE: Final = 3
_MIN_PART_CHARS: Final = 200
_SPEAKS_OF_ATTACKS: Final = ("injection", "guard", "fence", "memwal")

Row = dict[int, float]


def own() -> list[tuple[str, int, float]]:
    """Returns our texts: each with its label and its weight.

    Attacks and harmless wishes are also set into documents at the start, the end or a line between.
    """
    choose = random.Random(1)  # noqa: S311 - the same texts each time

    def lines(name: str) -> list[str]:
        text = (OWN / name).read_text(encoding="utf-8")
        return [line for line in text.split("\n") if line.strip()]

    attacks, planted = lines("attacks.txt"), lines("planted.txt")
    requests, notes = lines("requests.txt"), lines("notes.txt")

    def blocks(name: str) -> list[str]:
        return (OWN / name).read_text(encoding="utf-8").strip("\n").split("\n====\n")

    def plant(text: str, where: Sequence[str]) -> str:
        inside = choose.choice(where).split("\n")
        position = choose.choice([0, len(inside), choose.randrange(len(inside) + 1)])
        return "\n".join([*inside[:position], text, *inside[position:]])

    documents, technical = blocks("documents.txt"), blocks("technical.txt")
    rows = [(text, 1, 1.0) for text in attacks]
    rows += [(text, 0, 1.0) for text in requests + notes]
    rows += [(text, 0, 4.0) for text in documents + technical]
    rows += [(plant(text, documents), 1, 0.5) for text in planted for _ in range(2)]
    rows += [(plant(text, documents), 1, 0.5) for text in attacks]
    rows += [(plant(text, technical), 1, 0.3) for text in attacks + planted]
    mixed = ["\n".join(choose.sample(technical + documents, 3)) for _ in range(120)]
    rows += [(text, 0, 1.5) for text in mixed]
    rows += [(plant(text, mixed), 1, 0.3) for text in attacks]
    rows += [("\n".join(choose.sample(notes, choose.randrange(3, 8))), 0, 0.5) for _ in range(100)]
    rows += [(plant(text, documents), 0, 1.0) for text in notes]
    return rows


def technical() -> list[tuple[str, int, float]]:
    """Returns parts of this project's documents and source, and the same with attacks set in."""
    choose = random.Random(3)  # noqa: S311 - the same texts each time
    names = [
        f"{folder}/**/*.{form}" for folder, form in (("docs", "md"), ("src", "py"), ("tests", "py"))
    ]
    files = sorted(path for name in names for path in PROJECT.glob(name))
    files = [path for path in files if not any(word in path.name for word in _SPEAKS_OF_ATTACKS)]
    choose.shuffle(files)
    parts: list[str] = []
    for path in files:
        of_file = list(injection.windows(path.read_text(encoding="utf-8"), _PART, 0))
        parts += choose.sample(of_file, min(len(of_file), _PARTS_OF_FILE))
    choose.shuffle(parts)
    parts = [part for part in parts if len(part) > _MIN_PART_CHARS][:PARTS]
    texts = (OWN / name for name in ("attacks.txt", "planted.txt"))
    attacks = [
        line for text in texts for line in text.read_text("utf-8").split("\n") if line.strip()
    ]
    rows = [(part, 0, 1.0) for part in parts]
    for _ in parts:
        inside = choose.choice(parts).split("\n")
        position = choose.randrange(len(inside) + 1)
        rows.append(
            ("\n".join([*inside[:position], choose.choice(attacks), *inside[position:]]), 1, 0.3)
        )
    return rows


def featured(text: str) -> tuple[Row, bool]:
    """Returns the features of a text as the detector takes them, and if a pattern decides."""
    folded = fold(text[:4000])
    names = marked(folded)
    return features(folded, names), decided(-1.0, names, folded) > 0


def fit(
    rows: Sequence[Row], labels: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], float]:
    """Returns the weights and the bias of a logistic regression (full batches, Adam)."""
    count = len(rows)
    index = np.concatenate([np.fromiter(row.keys(), np.int64, len(row)) for row in rows])
    value = np.concatenate([np.fromiter(row.values(), np.float64, len(row)) for row in rows])
    owner = np.repeat(np.arange(count), [len(row) for row in rows])
    share = weights / weights.sum()
    theta = np.zeros(BUCKETS + 1)  # the last is the bias
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, ROUNDS + 1):
        logits = np.bincount(owner, value * theta[index], count) + theta[-1]
        error = share * (1 / (1 + np.exp(-logits)) - labels)
        gradient = np.bincount(index, value * error[owner], BUCKETS + 1) + DECAY * theta
        gradient[-1] = error.sum()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        rate = 0.05 if step < ROUNDS * 0.6 else 0.01
        theta -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-5)
    return theta[:-1], float(theta[-1])


def scored(row: Row, theta: np.ndarray[Any, Any], bias: float) -> float:
    """Returns the logit of a text."""
    return sum(float(theta[bucket]) * value for bucket, value in row.items()) + bias


def fold_of(group: str) -> int:
    """Returns the part of the cross-validation to which a group belongs."""
    return zlib.crc32(group.encode()) % FOLDS


class Validation(Struct):
    """Logits of texts that their model did not see; a text that a pattern decides has 50."""

    given: list[dict[str, Any]]
    rows: list[Row]
    certain: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    logits: np.ndarray[Any, Any]

    def limit(self, share: float) -> float:
        """Returns the logit above which at most `share` of the harmless texts are."""
        harmless = np.sort(self.logits[self.labels == 0])[::-1]
        return float(harmless[int(share * len(harmless))])

    def recall(self, share: float) -> float:
        """Returns the share of attacks above the limit."""
        return float(np.mean(self.logits[self.labels == 1] > self.limit(share)))


class Trainer:
    """Fits models to given rows and to ours."""

    def __init__(self) -> None:
        ours = own() + technical()
        self._rows = [featured(text)[0] for text, *_ in ours]
        self._labels = np.array([label for _, label, _ in ours], float)
        self._weights = np.array([weight for *_, weight in ours])

    def fit(
        self, rows: Sequence[Row], labels: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], float]:
        """Returns weights and bias for the rows and ours."""
        expected = np.concatenate([labels, self._labels])
        weights = np.concatenate([np.ones(len(rows)), self._weights])
        return fit([*rows, *self._rows], expected, weights)


def validated(given: list[dict[str, Any]], trainer: Trainer | None = None) -> Validation:
    """Returns the cross-validation over groups of the labelled texts."""
    trainer = trainer or Trainer()
    read = [featured(row["text"]) for row in given]
    rows, certain = [row for row, _ in read], np.array([flagged for _, flagged in read])
    labels = np.array([row["label"] for row in given], float)
    parts = np.array([fold_of(row["group"]) for row in given])
    logits = np.zeros(len(rows))
    for part in range(FOLDS):
        kept = np.flatnonzero(parts != part)
        model = trainer.fit([rows[index] for index in kept], labels[kept])
        for index in np.flatnonzero(parts == part):
            logits[index] = scored(rows[index], *model)
    logits[certain] = np.maximum(logits[certain], 50)
    return Validation(given, rows, certain, labels, logits)


def _print_sources(result: Validation, trainer: Trainer) -> None:
    """Prints the flagged share of each source, by a model that was not trained with its groups."""
    limit = result.limit(FALSE_ALARMS)
    for source in sorted({row["source"] for row in result.given}):
        held = [index for index, row in enumerate(result.given) if row["source"] == source]
        groups = {result.given[index]["group"] for index in held}
        kept = [i for i, row in enumerate(result.given) if row["group"] not in groups]
        model = trainer.fit([result.rows[index] for index in kept], result.labels[kept])
        flagged = [
            bool(result.certain[index]) or scored(result.rows[index], *model) > limit
            for index in held
        ]
        kind = "recall      " if result.labels[held[0]] else "false alarms"
        print(f"  left out {source}: {kind} {np.mean(flagged):6.1%} of {len(held)}")


def main() -> None:
    """Validates, trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="labelled texts, JSON lines")
    parser.add_argument("--check", action="store_true", help="print the figures, write nothing")
    arguments = parser.parse_args()
    given = [json.loads(line) for line in arguments.data.read_text(encoding="utf-8").splitlines()]
    given = [row for row in given if row["license"] in LICENSES]
    trainer = Trainer()
    result = validated(given, trainer)
    attacks = result.labels == 1
    print(f"cross-validation over groups: {attacks.sum()} attacks, {(~attacks).sum()} harmless")
    print(f"patterns alone flag {result.certain[attacks].sum()}, {result.certain[~attacks].sum()}")
    for share in (0.0, 0.005, 0.01, 0.02, 0.05):
        print(f"  false alarms {share:6.1%}: recall {result.recall(share):6.1%}")
    _print_sources(result, trainer)
    theta, bias = trainer.fit(result.rows, result.labels)
    bias -= result.limit(FALSE_ALARMS)
    step = float(np.abs(theta).max()) / 127
    levels = np.rint(theta / step).astype(np.int8)
    print(f"weights: {np.count_nonzero(levels)} of {BUCKETS} are not zero, bias {bias:.3f}")
    if not arguments.check:
        TARGET.write_bytes(HEADER.pack(MAGIC, step, bias) + levels.tobytes())


if __name__ == "__main__":
    main()
