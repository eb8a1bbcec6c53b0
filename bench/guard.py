"""CPU of the detector of injected instructions a text, beside MemWal's five patterns; its recall.

Recall and false alarms are those of a cross-validation over groups, when `SKERRY_INJECTION_DATA`
names the labelled texts; without it only the time is measured, on the texts of
`scripts/injection/`. False alarms on long technical text are those on the descriptions of the
installed packages and the modules of Python, which nothing was trained on; an attack of the
labelled texts is set into each of them for the recall.
"""

import json
import os
import random
import re
import statistics
import sysconfig
import time
from collections.abc import Callable, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from bench.measure import figure
from scripts.train_injection import own, validated
from skerry.policy.injection import scan

ROUNDS = 5
SEEDS = re.compile(
    r"ignore (?:all|any|previous|above|prior) instructions"
    r"|do not follow (?:the )?(?:system|developer)"
    r"|system prompt|<\s*(?:system|assistant|developer|tool|function)\b"
    r"|\b(?:run|execute|call|invoke)\b.{0,40}\b(?:tool|command)\b",
    re.IGNORECASE,
)
ORDINARY = 1000
"""Characters of a text of ordinary length."""
LONG = (400, 40_000)
SHORT = 300
SHARES = (0.0, 0.005, 0.01, 0.02, 0.05)


def milliseconds(examine: Callable[[str], object], texts: Sequence[str]) -> float:
    """Returns the CPU milliseconds a text, the median of the rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for text in texts:
            examine(text)
        rounds.append((time.process_time() - begun) * 1000 / len(texts))
    return statistics.median(rounds)


def technical() -> list[str]:
    """Returns descriptions of packages and modules of Python, of 400 to 40,000 characters."""
    described = {
        distribution.metadata["Name"]: distribution.read_text("METADATA")
        for distribution in distributions()
    }
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [text for _, text in sorted(described.items()) if text]
    texts += [file.read_text("utf-8", "replace") for file in files]
    return [text for text in texts if LONG[0] < len(text) < LONG[1]]


def _technical(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the false alarms on technical texts, and the recall of attacks within."""
    choose = random.Random(1)  # noqa: S311 - the same texts each time
    texts = technical()
    attacks = [
        row["text"]
        for row in rows
        if row["kind"] in {"direct", "memory-or-tool"} and len(row["text"]) < SHORT
    ]
    planted = []
    for text in texts:
        inside = text.split("\n")
        position = choose.randrange(len(inside) + 1)
        planted.append("\n".join([*inside[:position], choose.choice(attacks), *inside[position:]]))
    alarms = statistics.mean(scan(text).flagged for text in texts)
    recall = statistics.mean(scan(text).flagged for text in planted)
    note = f"{len(texts)} texts; with an attack in one line of them {recall:.0%} are flagged"
    figure("false alarms on technical text, %", "", f"{alarms:.1%}", note)


def main() -> None:
    """Prints the figures."""
    texts = [text for text, *_ in own() if len(text) <= ORDINARY]
    scan(texts[0])
    guard_ms, seeds = milliseconds(scan, texts), milliseconds(SEEDS.search, texts)
    length = statistics.mean(map(len, texts))
    figure(
        "CPU of the detector a text, ms",
        "<= 1",
        f"{guard_ms:.2f}",
        f"{length:.0f} characters on average; five patterns alone {seeds:.3f}",
    )
    named = os.environ.get("SKERRY_INJECTION_DATA")
    if not named:
        return
    rows = [json.loads(line) for line in Path(named).read_text(encoding="utf-8").splitlines()]
    result = validated(rows)
    points = "; ".join(f"{result.recall(share):.0%} at {share:.1%}" for share in SHARES)
    attacks = [row["text"] for row in rows if row["label"]]
    seen = sum(1 for text in attacks if SEEDS.search(text))
    figure(
        "recall at 2 % false alarms, %",
        ">= 60",
        f"{result.recall(0.02):.0%}",
        f"{points}; five patterns alone {seen / len(attacks):.0%}",
    )
    _technical(rows)


if __name__ == "__main__":
    main()
