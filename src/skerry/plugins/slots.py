"""Slots that plugins claim: a slot whose plugin is missing or claims nothing is an error."""

from collections.abc import Collection
from typing import Final

from skerry.config.root import Config
from skerry.model.errors import PluginError
from skerry.ports.plugins import PluginReport, PluginStatus
from skerry.sdk.registrations import Registered

OURS: Final = frozenset({"memory-core", "none"})
"""Values of `plugins.slots.memory` that name no plugin."""
_REMEDY: Final = 'Install or correct it, or set plugins.slots.memory to "memory-core".'


def missing_slots(config: Config, known: Collection[str]) -> list[PluginReport]:
    """Returns a failure for a slot that names a plugin which nobody can find."""
    plugin = config.plugins.slots.memory
    if plugin in OURS or plugin in known:
        return []
    reason = "plugins.slots.memory names it, and there is no such plugin."
    return [PluginReport(plugin, "", PluginStatus.FAILED, reason, _REMEDY)]


def check_slot(config: Config, plugin: str, registered: Registered) -> None:
    """Checks that a plugin which a slot names claims that slot.

    Raises:
        PluginError: it claims nothing.
    """
    if config.plugins.slots.memory == plugin and registered.memory is None:
        raise PluginError("plugins.slots.memory names it, and it claims no slot.", _REMEDY)


def off(config: Config, report: PluginReport, reason: str) -> PluginReport:
    """Returns the report of a plugin that is switched off; a failure where a slot names it."""
    if config.plugins.slots.memory != report.id:
        return report.but(PluginStatus.DISABLED, reason)
    message = f"plugins.slots.memory names it, and it is switched off: {reason}"
    return report.but(PluginStatus.FAILED, message, _REMEDY)
