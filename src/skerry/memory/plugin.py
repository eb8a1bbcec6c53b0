"""Brings the memory in, by the same door as a plugin of anybody."""

from skerry.memory.desk import Desk
from skerry.memory.tools import MemoryGet, MemorySearch
from skerry.sdk.api import PluginApi


def register(api: PluginApi, desk: Desk) -> None:
    """Register the tools."""
    api.register_tool(MemorySearch(desk))
    api.register_tool(MemoryGet(desk))
