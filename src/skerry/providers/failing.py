"""Remembers how the last call of each model failed, until it answers again."""

from collections.abc import Callable
from typing import Final

from skerry.model.errors import ModelError
from skerry.model.remedies import step
from skerry.ports.model import Failure
from skerry.ports.tries import OWN_FAULT

_MOST: Final = 64


def remedy_of(error: ModelError) -> str:
    """Returns the remedy for a failed call."""
    return step(error) or "Try it again."


class Failures:
    """The models whose last call failed."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._last: dict[str, Failure] = {}

    def note(self, ref: str, error: ModelError | None) -> None:
        """Note that a model answered, or how it failed; what was asked is no fault of its own."""
        if error is None:
            self._last.pop(ref, None)
        elif not isinstance(error, OWN_FAULT):
            while len(self._last) >= _MOST:
                del self._last[next(iter(self._last))]
            self._last[ref] = Failure(error.code, str(error), remedy_of(error), self._now_ms())

    def of(self, ref: str) -> Failure | None:
        """Return how the last call of a model failed."""
        return self._last.get(ref)

    def clear(self) -> None:
        """Forget all: another key or address was given."""
        self._last.clear()
