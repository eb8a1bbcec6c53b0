"""Section `gateway.reload`: reaction to an edit of the file while the gateway runs."""

from enum import StrEnum

from pydantic import Field

from skerry.config.base import Section


class ReloadMode(StrEnum):
    """Reaction to an edit of the file."""

    OFF = "off"
    """Does nothing: the file is read at the next start."""
    HOT = "hot"
    """Applies the changes that can take effect at once; reports those that need a restart."""
    HYBRID = "hybrid"
    """Applies the changes that can take effect at once; restarts the gateway for the others."""
    RESTART = "restart"
    """Restarts the gateway for every change."""

    @property
    def restarts(self) -> bool:
        """Returns whether the gateway may restart automatically."""
        return self in {ReloadMode.HYBRID, ReloadMode.RESTART}


class ReloadConfig(Section):
    """Reaction to an edit of the file while the gateway runs."""

    mode: ReloadMode = ReloadMode.HYBRID
    """`hybrid` applies at once the changes that can be; for others the gateway restarts when no run
    is active. `hot` never restarts, `restart` restarts for every change, `off` ignores edits."""
    debounce_ms: int = Field(default=300, ge=0, le=60_000)
    """Milliseconds without a change of the file after which it is read."""
