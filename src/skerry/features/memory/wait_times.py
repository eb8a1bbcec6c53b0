"""Waiting times of the memory, in seconds (pure)."""

from typing import Final

from skerry.infra.backoff import Backoff

RESTS: Final = Backoff(base=60.0, cap=1500.0, factor=5.0)
"""Pauses of a failed memory backend or server, in seconds."""
FRESH: Final = 2.5
"""Time limit for indexing changed files; after it the search uses the present index."""
QUERY: Final = 2.5
"""Time limit for the vector of the question, unless the model is being loaded; after it only words
are searched."""
READY: Final = 3.0
"""Time limit for both together: a tool has 4 seconds, including the search."""
FRESH_SHARE: Final = 0.6
READY_SHARE: Final = 0.75
"""Shares of the caller's remaining time, used if that is less: another memory may have used a part
before."""


def for_files(patience: float) -> float:
    """Returns the time limit for files, in seconds, for a caller with `patience` seconds."""
    return min(FRESH, patience * FRESH_SHARE)


def for_vector(patience: float, spent: float) -> float:
    """Returns the time limit for the vector, in seconds, for a caller with `patience` seconds."""
    return min(QUERY, min(READY, patience * READY_SHARE) - spent)
