"""Brings the memory in, by the same door as a plugin of anybody."""

from skerry.features.memory.service import Desk
from skerry.features.memory.tool_forget import Forget, MemoryForget
from skerry.features.memory.tool_write import MemoryWrite, Remember
from skerry.features.memory.tools import MemoryGet, MemorySearch
from skerry.sdk.api import PluginApi


def register(api: PluginApi, desk: Desk) -> None:
    """Registers the tools, and the commands of the owner's own word."""
    api.register_tool(MemorySearch(desk))
    api.register_tool(MemoryGet(desk))
    api.register_tool(MemoryWrite(desk))
    api.register_tool(MemoryForget(desk))
    api.register_command(
        "remember",
        Remember(desk).run,
        description="notes what follows for every later conversation",
        accepts_arguments=True,
    )
    api.register_command(
        "forget",
        Forget(desk).run,
        description="erases every sentence with the words that follow, everywhere",
        accepts_arguments=True,
    )
