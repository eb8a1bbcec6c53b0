"""Addresses of model APIs that did not answer: for a while they are asked last."""

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from skerry.model.errors import ModelError
from skerry.model.unanswered import ModelSilentError, ModelUnreachableError

SECONDS: Final = 60.0
"""Seconds for which an address that did not answer is tried after all others."""


def is_silence(error: ModelError | None) -> bool:
    """Return whether an address did not answer, as opposed to answering with an error."""
    return isinstance(error, ModelSilentError | ModelUnreachableError)


def is_dead(error: ModelError) -> bool:
    """Return whether there was no connection, so that no model at the address can answer."""
    return isinstance(error, ModelUnreachableError)


class Silences(Struct):
    """Addresses that did not answer, of all runs. It decides the order, and nothing else."""

    monotonic: Callable[[], float] = time.monotonic
    _until: dict[str, float] = field(default_factory=dict)

    def comes_last(self, address: str) -> bool:
        """Return whether others are asked first.

        When the time is over one request finds out whether the address answers again; meanwhile
        it stays last for others.
        """
        until = self._until.get(address)
        if until is None:
            return False
        now = self.monotonic()
        if now < until:
            return True
        self._until[address] = now + SECONDS
        return False

    def note(self, address: str) -> None:
        """Note that the address did not answer."""
        self._until[address] = self.monotonic() + SECONDS

    def answered(self, address: str) -> None:
        """Note that it did."""
        self._until.pop(address, None)
