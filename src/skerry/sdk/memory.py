"""`SlotMemory`: the memory that a plugin provides in the slot `memory`."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from skerry.model.memory import MemoryBackendError
from skerry.model.redaction import Redaction

__all__ = ("MemoryBackendError", "Redaction", "Remembered", "SlotMemory", "SlotStatus")


class Remembered(Struct, frozen=True):
    """A text in the memory, as a search returns it."""

    id: str
    """Id of the text in this memory."""
    text: str
    score: float = 1.0
    """Relevance for the query, 0 to 1; larger is better."""
    at: int | None = None
    """Time at which the text was stored, in milliseconds since 1970; None if unknown."""


class SlotStatus(Struct, frozen=True):
    """State of the memory of one agent."""

    is_ok: bool
    text: str
    """The state in one sentence."""
    remedy: str = ""
    """Next step for a person when `is_ok` is False."""
    provider: str = ""
    """Server or library that stores the texts."""
    count: int | None = None
    """Number of stored texts; None if unknown."""


class SlotMemory(Protocol):
    """The memories of all agents. Each call has a time limit; a late one is cancelled."""

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Remembered]:
        """Returns at most `limit` texts of the agent that match the query, best first.

        Raises:
            MemoryBackendError: the search failed; the message gives the reason.
        """
        ...

    async def forget(self, agent: str, phrases: Sequence[str]) -> int:
        """Erases every text of the agent that contains one of the phrases; returns their number.

        Must be idempotent: it may be called again with the same phrases.

        Raises:
            MemoryBackendError: the erasure is incomplete; it is called again later.
        """
        ...

    async def status(self, agent: str) -> SlotStatus:
        """Returns the state of the agent's memory. Must not raise."""
        ...
