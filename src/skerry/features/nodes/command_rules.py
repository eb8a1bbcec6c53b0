"""Decides which commands of nodes an agent may use (pure)."""

from typing import Final

from msgspec import Struct

from skerry.features.nodes.config import NodesConfig, selects
from skerry.policy.effect import ToolEffect

HARMLESS: Final = frozenset({"camera.list", "device.info", "device.status"})
"""Commands that only describe the device; they run without an approval."""
CLOSED: Final = ("system.run", "system.execApprovals")
"""Prefixes of commands that run programs, or change which programs may run. The tool `exec`, which
examines the command line, runs programs on nodes."""


class CommandRuling(Struct, frozen=True):
    """Decision on one command."""

    effect: ToolEffect
    rule: str
    reason: str = ""


def ruling(settings: NodesConfig, command: str) -> CommandRuling:
    """Returns the decision on a command, for the agent of the owner."""
    if command.startswith(CLOSED):
        reason = "the tool nodes runs no programs; exec does, with tools.exec.host: node"
        return CommandRuling(ToolEffect.DENY, "node-command-closed", reason)
    if selects(settings.deny_commands, command):
        reason = f"gateway.nodes.denyCommands has {command}"
        return CommandRuling(ToolEffect.DENY, "node-command-denied", reason)
    if command in HARMLESS:
        return CommandRuling(ToolEffect.ALLOW, "node-command-harmless")
    if selects(settings.allow_commands, command):
        return CommandRuling(ToolEffect.ALLOW, "node-command-allowed")
    reason = f"gateway.nodes.allowCommands does not have {command}"
    return CommandRuling(ToolEffect.ASK, "node-command-ask", reason)
