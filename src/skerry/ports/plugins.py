"""Reports on plugins."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class PluginStatus(StrEnum):
    """State of a plugin."""

    LOADED = "loaded"
    DISABLED = "disabled"
    FAILED = "failed"


class PluginReport(Struct, frozen=True):
    """One plugin file that the configuration names."""

    id: str
    path: str
    status: PluginStatus
    reason: str = ""
    """Reason why the plugin is not loaded."""
    remedy: str = ""
    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    """`search` and `embedding`, as far as it provides them."""
    skills: tuple[str, ...] = ()
    sha256: str = ""
    """Hash of its files, as they were loaded."""

    def but(self, status: PluginStatus, reason: str, remedy: str = "") -> "PluginReport":
        """Returns the report with another status."""
        return replace(self, status=status, reason=reason, remedy=remedy)
