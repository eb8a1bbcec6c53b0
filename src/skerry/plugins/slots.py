"""Checks of slots: the plugin that a slot names must exist and claim the slot."""

from collections.abc import Collection
from typing import Final

from skerry.config.root import Config
from skerry.model.errors import PluginError
from skerry.ports.plugins import PluginReport, PluginStatus
from skerry.sdk.registrations import Registered

BUILTIN: Final = frozenset({"memory-core", "none"})
"""Values of `plugins.slots.memory` that are not plugin ids."""
_REMEDY: Final = 'Install or correct it, or set plugins.slots.memory to "memory-core".'


def missing_slots(config: Config, plugins: Collection[str]) -> list[PluginReport]:
    """Returns a failure for each slot that names a missing plugin."""
    plugin = config.plugins.slots.memory
    if plugin in BUILTIN or plugin in plugins:
        return []
    reason = "plugins.slots.memory names it, and there is no such plugin."
    return [PluginReport(plugin, "", PluginStatus.FAILED, reason, _REMEDY)]


def check_slot(config: Config, plugin: str, registered: Registered) -> None:
    """Checks that the plugin which a slot names has claimed it.

    Raises:
        PluginError: the plugin has not claimed the slot.
    """
    if config.plugins.slots.memory == plugin and registered.memory is None:
        raise PluginError("plugins.slots.memory names it, and it claims no slot.", _REMEDY)


def off(config: Config, report: PluginReport, reason: str) -> PluginReport:
    """Returns the report of a disabled plugin; a failure when a slot names it."""
    if config.plugins.slots.memory != report.id:
        return report.but(PluginStatus.DISABLED, reason)
    message = f"plugins.slots.memory names it, and it is switched off: {reason}"
    return report.but(PluginStatus.FAILED, message, _REMEDY)
