"""Schedule of the updates of QMD's index and of its vectors (pure)."""

from dataclasses import dataclass
from typing import Final

from skerry.config.memory_qmd import QmdUpdate

_SETTLE_MS: Final = 1_500
"""Pause after a change, in milliseconds. Source: seed 003, "Update Cycles"."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work that is due."""

    update: bool = False
    embed: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """Times of the last updates, in milliseconds since 1970; None without any."""

    started: int
    """Start time of the gateway, in milliseconds since 1970."""
    updated: int | None = None
    """Time at which the last update began, also one that failed."""
    embedded: int | None = None
    """Time at which the last update of the vectors began, also one that failed."""
    changed: int | None = None
    """Time at which a file changed since the last update began."""

    def due(self, now: int, rules: QmdUpdate) -> Work:
        """Returns the work that is due now; vectors are only refreshed after an update."""
        update = now >= self.next_update(rules)
        embedded = self.embedded is not None
        since = self.embedded if self.embedded is not None else self.started
        embed = now >= since + (rules.embed_interval if embedded or not rules.on_boot else 0)
        return Work(update or embed, embed)

    def next_update(self, rules: QmdUpdate) -> int:
        """Returns the time of the next update of the text index."""
        if self.updated is None and rules.on_boot:
            return self.started
        last = self.updated if self.updated is not None else self.started
        regular = last + rules.interval
        if self.changed is None:
            return regular
        earliest = self.updated + rules.debounce_ms if self.updated is not None else 0
        return min(regular, max(self.changed + _SETTLE_MS, earliest))

    def seconds_until_due(self, now: int, rules: QmdUpdate) -> float:
        """Returns the seconds until work is due, from 0.1 to 60.

        The limit of a minute also holds when the clock was set back.
        """
        since = self.embedded if self.embedded is not None else self.started
        first = min(self.next_update(rules), since + rules.embed_interval)
        return min(60.0, max(0.1, (first - now) / 1000))
