"""Port to the command patterns that people have permanently allowed to an agent."""

from collections.abc import Sequence
from typing import Protocol


class Allowlist(Protocol):
    """Patterns by agent; a person adds them with "allow always" or by hand."""

    async def patterns(self, agent: str) -> tuple[str, ...]:
        """Returns the patterns of the agent and those that apply to all agents."""
        ...

    async def used(self, agent: str, patterns: Sequence[str], command: str, path: str) -> None:
        """Records that these patterns allowed a command, and the path of its program.

        Secrets are removed from the stored command.
        """
        ...
