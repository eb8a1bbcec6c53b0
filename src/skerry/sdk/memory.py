"""Memory of a plugin that claims the slot `memory`."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from skerry.model.memory import MemoryBackendError
from skerry.model.redaction import Redaction

__all__ = ("MemoryBackendError", "Redaction", "Remembered", "SlotMemory", "SlotStatus")


class Remembered(Struct, frozen=True):
    """A text that the memory has."""

    id: str
    text: str
    score: float = 1.0
    """0 to 1, the best first."""
    at: int | None = None
    """Time at which it was stored, in milliseconds since 1970."""


class SlotStatus(Struct, frozen=True):
    """State of the memory of one agent."""

    is_ok: bool
    text: str
    """The state in one sentence."""
    remedy: str = ""
    """Advice for a person where it does not work."""
    provider: str = ""
    """Server or library behind it."""
    count: int | None = None
    """Texts that it has; None where it cannot tell."""


class SlotMemory(Protocol):
    """The memories of all agents. Each call has a deadline."""

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Remembered]:
        """Returns the texts that answer a question, the best first.

        Raises:
            MemoryBackendError: it cannot answer; the message names the reason.
        """
        ...

    async def forget(self, agent: str, phrases: Sequence[str]) -> int:
        """Erases every text with one of the phrases; returns how many there were.

        It may be called again for the same phrases, which finds nothing more.

        Raises:
            MemoryBackendError: it is not done; it is asked again later.
        """
        ...

    async def status(self, agent: str) -> SlotStatus:
        """Returns the state; it never fails."""
        ...
