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
"""Of what the caller has left, where that is less: another memory may have had its share before."""


def for_files(given: float) -> float:
    """Return what is waited for files, of a caller who waits so long."""
    return min(FRESH, given * FRESH_SHARE)


def for_vector(given: float, spent: float) -> float:
    """Return what is waited for the vector, of a caller who waits so long, after some is spent."""
    return min(QUERY, min(READY, given * READY_SHARE) - spent)
