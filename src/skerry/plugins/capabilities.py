"""Capabilities of a manifest: a plugin that lists some must register nothing else.

The list shows a person before the installation what a plugin registers, and the check finds
mistakes. It is no protection: the code of a plugin has all rights of the gateway.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from skerry.model.errors import PluginError
from skerry.plugins.manifest import FILE, Manifest
from skerry.sdk.registrations import Registered

_PARTS: Final[Mapping[str, Callable[[Registered], Any]]] = {
    "tools": lambda registered: registered.tools,
    "gateway": lambda registered: [*registered.methods, *registered.events],
    "http": lambda registered: [*registered.routes, *registered.panels],
    "commands": lambda registered: registered.commands,
    "channels": lambda registered: registered.channels,
    "providers": lambda registered: (
        registered.models or registered.model_apis or registered.search or registered.embedding
    ),
    "services": lambda registered: registered.services,
    "hooks": lambda registered: registered.handlers,
    "cli": lambda registered: registered.cli,
    "skills": lambda registered: registered.skill_dirs,
}
"""Functions that return the registrations of each capability."""


def check_capabilities(manifest: Manifest, registered: Registered) -> None:
    """Checks that the manifest of a plugin lists all that it registered.

    Raises:
        PluginError: `capabilities` lacks a kind of registration, or `contracts.tools` a tool.
    """
    if manifest.capabilities:
        for kind, parts in _PARTS.items():
            if parts(registered) and kind not in manifest.capabilities:
                raise PluginError(
                    f"The plugin registers {kind}, and capabilities of {FILE} does not list them.",
                    f"Add capabilities.{kind} to its manifest.",
                )
    if manifest.contract_tools is not None:
        names = {tool.spec.name for tool in registered.tools}
        if unlisted := sorted(names - set(manifest.contract_tools)):
            raise PluginError(
                f"The plugin registers the tool {unlisted[0]}, which contracts.tools of {FILE} does"
                " not list.",
                "Add the name to its manifest.",
            )
