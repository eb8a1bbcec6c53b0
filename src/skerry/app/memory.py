"""Puts the memory in its slot: which one it is, and what it brings."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.memory.desk import Desk
from skerry.memory.plugin import register
from skerry.ports.memory import Forgets, Memories
from skerry.ports.tool import Tool
from skerry.sdk.api import PluginApi, sealed

CORE: Final = "memory-core"
"""Our own memory in `plugins.slots.memory`."""


class MemoryParts(Struct, frozen=True):
    """What the memory brings to the gateway; nothing of it where another holds the slot."""

    desk: Desk | None = None
    tools: tuple[Tool, ...] = ()
    commands: tuple[Command, ...] = ()


def take_slot(
    memories: Memories | None,
    config: Callable[[], Config],
    hooks: Hooks,
    clock: Clock,
    forgets: Forgets | None = None,
) -> MemoryParts:
    """Let our memory take part, if the slot is its own."""
    if memories is None or config().plugins.slots.memory != CORE:
        return MemoryParts()
    desk = Desk(memories, config, clock, forgets)
    api = PluginApi(CORE, tuple(hooks.points))
    register(api, desk)
    registered = sealed(api)
    for hook, handler in registered.handlers:
        hooks.points[hook].add(handler)
    return MemoryParts(desk, tuple(registered.tools), tuple(registered.commands))
