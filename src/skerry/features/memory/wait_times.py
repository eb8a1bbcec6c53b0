"""Waiting times of the memory, in seconds (pure)."""

from typing import Final

from skerry.infra.backoff import Backoff

RESTS: Final = Backoff(base=60.0, cap=1500.0, factor=5.0)
"""Seconds in which a memory backend or a server that failed is not asked."""
FRESH: Final = 2.5
"""Seconds for changed files; after them the search uses the present index."""
QUERY: Final = 2.5
"""Seconds for the vector of its question, unless the model is being loaded; after them only words
are searched."""
READY: Final = 3.0
"""Seconds for both together: a tool has 4 seconds, and the search comes after them."""
FRESH_SHARE: Final = 0.6
READY_SHARE: Final = 0.75
"""Share of the caller's remaining time, where that is less: another memory may have used its share
before."""


def for_files(patience: float) -> float:
    """Returns the time to wait for files, for a caller who waits this long."""
    return min(FRESH, patience * FRESH_SHARE)


def for_vector(patience: float, spent: float) -> float:
    """Returns the time left for the vector, for a caller who waits this long."""
    return min(QUERY, min(READY, patience * READY_SHARE) - spent)
