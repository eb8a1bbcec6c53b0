"""Records failed models, and addresses that did not answer: these are tried last."""

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
    """Returns True when the address did not answer; False when it answered with an error."""
    return isinstance(error, ModelSilentError | ModelUnreachableError)


def is_dead(error: ModelError) -> bool:
    """Returns True when there was no connection, so that no model at the address can answer."""
    return isinstance(error, ModelUnreachableError)


class SilentAddresses(Struct):
    """Addresses that did not answer, of all runs. They affect the order of candidates only."""

    monotonic: Callable[[], float] = time.monotonic
    until: dict[str, float] = field(default_factory=dict)
    """End of each pause by address, in the time of `monotonic`."""

    def comes_last(self, address: str) -> bool:
        """Returns True when other addresses are tried first.

        After the pause one call gets False and tests the address; meanwhile other calls get True.
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
        """Records that the address did not answer."""
        self.until[address] = self.monotonic() + SECONDS

    def answered(self, address: str) -> None:
        """Records that the address answered."""
        self.until.pop(address, None)


_MAX_FAILURES: Final = 64


def remedy_of(error: ModelError) -> str:
    """Returns the remedy for a failed call."""
    return step(error) or "Try it again."


class ModelFailures:
    """The models whose last call failed."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.last: dict[str, ModelFailure] = {}
        """Last failure of each model, by `provider/model`."""

    def note(self, ref: str, error: ModelError | None) -> None:
        """Records the result of a call. Errors caused by the request itself are ignored."""
        if error is None:
            self.last.pop(ref, None)
        elif not isinstance(error, OWN_FAULT):
            while len(self.last) >= _MAX_FAILURES:
                del self.last[next(iter(self.last))]
            self.last[ref] = ModelFailure(error.code, str(error), remedy_of(error), self._now_ms())

    def of(self, ref: str) -> ModelFailure | None:
        """Returns the failure of the model's last call; None when it succeeded."""
        return self.last.get(ref)

    def clear(self) -> None:
        """Deletes all failures, since a key or address was changed."""
        self.last.clear()
