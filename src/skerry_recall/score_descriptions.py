"""Descriptions of the parts of a score, by their names in an explanation."""

from collections.abc import Mapping
from typing import Final

SCORE_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "phrase": "has the words that you quoted",
    "text": "how well its words fit",
    "text.rank": "its place by words alone",
    "text.near": "what its neighbours' words add",
    "text.part": "what words give to its score",
    "vector": "how near its meaning is",
    "vector.rank": "its place by meaning alone",
    "vector.near": "what its neighbours' meaning adds",
    "vector.part": "what meaning gives to its score",
    "document": "the best of its file or conversation speaks for it",
    "dated": "it is of a day that you name",
    "said": "somebody else than you ask for says it",
    "asks": "it asks itself",
    "echo": "it asks the same",
    "newer": "it is newer than one that says nearly the same",
    "when": "you ask when, and it names no time",
    "decay": "what its age leaves of the score",
    "mmr": "how little it repeats what stands above it",
}
"""Descriptions by the names in `Hit.explanation`, in the second person: the reader has searched."""
