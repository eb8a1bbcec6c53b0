"""The time that a search gives to what comes before it, in seconds (pure)."""

from typing import Final

FRESH: Final = 2.5
"""For files that changed; then it answers from what is indexed so far."""
QUERY: Final = 2.5
"""For the vector of its question, unless the model is being loaded; then words alone are
compared."""
READY: Final = 3.0
"""For both together: a tool has 4 seconds, and the search comes after them."""
FRESH_SHARE: Final = 0.6
READY_SHARE: Final = 0.75
"""Share of the caller's remaining time, where that is less: another memory may have used its share
before."""


def for_files(given: float) -> float:
    """Returns the time to wait for files, for a caller who waits this long."""
    return min(FRESH, given * FRESH_SHARE)


def for_vector(given: float, spent: float) -> float:
    """Returns the time left for the vector, for a caller who waits this long."""
    return min(QUERY, min(READY, given * READY_SHARE) - spent)
