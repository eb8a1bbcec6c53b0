"""Remembers which models failed, and which addresses did not answer: those are asked last."""

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from skerry.model.errors import ModelError
from skerry.model.remedies import step
from skerry.model.unanswered import ModelSilentError, ModelUnreachableError
from skerry.ports.model import ModelFailure
from skerry.ports.model_candidates import OWN_FAULT

SECONDS: Final = 60.0
"""Seconds for which an address that did not answer is tried after all others."""


def is_silence(error: ModelError | None) -> bool:
    """Returns whether an address did not answer, as opposed to answering with an error."""
    return isinstance(error, ModelSilentError | ModelUnreachableError)


def is_dead(error: ModelError) -> bool:
    """Returns whether there was no connection, so that no model at the address can answer."""
    return isinstance(error, ModelUnreachableError)


class SilentAddresses(Struct):
    """Addresses that did not answer, of all runs. It decides the order, and nothing else."""

    monotonic: Callable[[], float] = time.monotonic
    until: dict[str, float] = field(default_factory=dict)
    """End of each silence, of `monotonic`, by address."""

    def comes_last(self, address: str) -> bool:
        """Returns whether others are asked first.

        When the time is over one request finds out whether the address answers again; meanwhile
        it stays last for others.
        """
        until = self.until.get(address)
        if until is None:
            return False
        now = self.monotonic()
        if now < until:
            return True
        self.until[address] = now + SECONDS
        return False

    def note(self, address: str) -> None:
        """Notes that the address did not answer."""
        self.until[address] = self.monotonic() + SECONDS

    def answered(self, address: str) -> None:
        """Notes that it did."""
        self.until.pop(address, None)


_MOST: Final = 64


def remedy_of(error: ModelError) -> str:
    """Returns the remedy for a failed call."""
    return step(error) or "Try it again."


class ModelFailures:
    """The models whose last call failed."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.last: dict[str, ModelFailure] = {}
        """Last failure of each by `provider/model`."""

    def note(self, ref: str, error: ModelError | None) -> None:
        """Notes that a model answered, or how it failed; what was asked is no fault of its own."""
        if error is None:
            self.last.pop(ref, None)
        elif not isinstance(error, OWN_FAULT):
            while len(self.last) >= _MOST:
                del self.last[next(iter(self.last))]
            self.last[ref] = ModelFailure(error.code, str(error), remedy_of(error), self._now_ms())

    def of(self, ref: str) -> ModelFailure | None:
        """Returns how the last call of a model failed."""
        return self.last.get(ref)

    def clear(self) -> None:
        """Forgets all: another key or address was given."""
        self.last.clear()
