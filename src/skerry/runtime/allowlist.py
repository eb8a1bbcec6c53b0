"""Patterns that people have allowed permanently, read from the store."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from skerry.infra.clock import Clock
from skerry.store import Store, allowlist


class StoredAllowlist(Struct, frozen=True):
    """Implements `ports.allowlist.Allowlist`."""

    store: Store
    clock: Clock
    redact: Callable[[str], str] = str
    """Removes secrets from the recorded commands."""

    async def patterns(self, agent: str) -> tuple[str, ...]:
        """Returns the patterns of the agent and of all agents."""
        rows = await self.store.read(lambda reader: allowlist.patterns(reader, agent))
        return tuple(dict.fromkeys(row.pattern for row in rows))

    async def used(self, agent: str, patterns: Sequence[str], command: str, path: str) -> None:
        """Records that these patterns allowed a command; written with the next unit."""
        now, redacted, matched = self.clock.now_ms(), self.redact(command), tuple(patterns)
        self.store.ride(lambda unit: allowlist.used(unit, agent, matched, redacted, path, now))
