"""Puts the memory in its slot: which one it is, and what it brings."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.features.memory.recalling import Recalling
from skerry.features.memory.service import Desk
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.infra.clock import Clock
from skerry.ports.memory import Forgets, Memories
from skerry.ports.tool import Tool

if TYPE_CHECKING:
    from skerry.sdk.parts import Registered

CORE: Final = "memory-core"
"""Our own memory in `plugins.slots.memory`."""


class MemoryParts(Struct, frozen=True):
    """Parts that the memory adds to the gateway; all empty if another memory holds the slot."""

    desk: Desk | None = None
    tools: Callable[[], Sequence[Tool]] = tuple
    """Function that makes the tools at the first request; so for the commands."""
    commands: Callable[[], Sequence[Command]] = tuple


def take_slot(
    memories: Memories | None,
    config: Callable[[], Config],
    hooks: Hooks,
    clock: Clock,
    forgets: Forgets | None = None,
) -> MemoryParts:
    """Lets our memory take part, if the slot is its own."""
    if memories is None or config().plugins.slots.memory != CORE:
        return MemoryParts()
    desk = Desk(memories, config, clock, forgets)
    recalling = Recalling(desk)
    handler: Handler[Any, Any] = Handler(CORE, recalling.recall, 0, recalling.is_due)
    hooks.points["before_prompt_build"].add(handler)

    @cache
    def registered() -> "Registered":
        # Imported here: the first message is soon enough.
        from skerry.features.memory.plugin import register  # noqa: PLC0415
        from skerry.sdk.api import PluginApi, sealed  # noqa: PLC0415

        api = PluginApi(CORE)
        register(api, desk)
        return sealed(api)

    return MemoryParts(desk, lambda: registered().tools, lambda: registered().commands)
