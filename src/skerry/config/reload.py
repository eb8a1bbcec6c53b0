"""Section `gateway.reload`: what follows an edit of the file while the gateway runs."""

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
    """Applies the changes that can take effect at once; restarts the gateway for the rest."""
    RESTART = "restart"
    """The gateway restarts by itself for every change."""

    @property
    def restarts(self) -> bool:
        """Returns whether the gateway may restart by itself."""
        return self in {ReloadMode.HYBRID, ReloadMode.RESTART}


class ReloadConfig(Section):
    """Reaction to an edit of the file while the gateway runs."""

    mode: ReloadMode = ReloadMode.HYBRID
    """`hybrid`: what can change at once does, and for the rest the gateway restarts once no run is
    under way. `hot` never restarts, `restart` does for every change, `off` reads nothing."""
    debounce_ms: int = Field(default=300, ge=0, le=60_000)
    """Milliseconds for which the file must rest before it is read."""
