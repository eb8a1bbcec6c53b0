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
    """One plugin that the configuration names: its status, and the names that it registered."""

    id: str
    path: str
    status: PluginStatus
    reason: str = ""
    """Reason why the plugin is not loaded, or empty."""
    remedy: str = ""
    """The next step for a person, or empty."""
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
    """Those of `search` and `embedding` that it provides."""
    skills: tuple[str, ...] = ()
    sha256: str = ""
    """SHA-256 of its files as they were loaded, in hexadecimal; empty if they were not read."""

    def but(self, status: PluginStatus, reason: str, remedy: str = "") -> "PluginReport":
        """Returns the report with another status."""
        return replace(self, status=status, reason=reason, remedy=remedy)
