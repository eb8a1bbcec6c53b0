"""Port to the patterns of commands that people allow to an agent for good."""

from collections.abc import Sequence
from typing import Protocol


class Allowlist(Protocol):
    """Patterns by agent; a person adds them by "allow always" or by hand."""

    async def patterns(self, agent: str) -> tuple[str, ...]:
        """Returns the patterns of the agent and of all agents."""
        ...

    async def used(self, agent: str, patterns: Sequence[str], command: str, path: str) -> None:
        """Notes that a command ran by these patterns, and the path of its program.

        The command is stored without secrets.
        """
        ...
