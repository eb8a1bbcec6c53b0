"""CPU of the detector of injected instructions a text, beside MemWal's five patterns; its recall.

Recall and false alarms are those of a cross-validation over groups, when `SKERRY_INJECTION_DATA`
names the labelled texts; without it only the time is measured, on the texts of
`scripts/injection/`.
"""

import json
import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

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


def main() -> None:
    """Prints the figures."""
    texts = [text for text, *_ in own() if len(text) <= ORDINARY]
    scan(texts[0])
    ours, seeds = milliseconds(scan, texts), milliseconds(SEEDS.search, texts)
    length = statistics.mean(map(len, texts))
    figure(
        "CPU of the detector a text, ms",
        "<= 1",
        f"{ours:.2f}",
        f"{length:.0f} characters on average; five patterns alone {seeds:.3f}",
    )
    named = os.environ.get("SKERRY_INJECTION_DATA")
    if not named:
        return
    given = [json.loads(line) for line in Path(named).read_text(encoding="utf-8").splitlines()]
    result = validated(given)
    points = "; ".join(f"{result.recall(share):.0%} at {share:.1%}" for share in SHARES)
    attacks = [row["text"] for row in given if row["label"]]
    seen = sum(1 for text in attacks if SEEDS.search(text))
    figure(
        "recall at 2 % false alarms, %",
        ">= 60",
        f"{result.recall(0.02):.0%}",
        f"{points}; five patterns alone {seen / len(attacks):.0%}",
    )


if __name__ == "__main__":
    main()
