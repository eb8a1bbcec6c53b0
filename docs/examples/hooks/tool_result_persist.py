"""Cuts long tool results in the transcript."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import ToolResultPersist, ToolResultPersistChange
from skerry.sdk.messages import TextBlock, replace

MAX_CHARS = 2000


def shorten(event: ToolResultPersist) -> ToolResultPersistChange | None:
    """Returns the beginning of a long result. This hook needs a plain function."""
    text = event.message.text
    if len(text) <= MAX_CHARS:
        return None
    short = TextBlock(f"{text[:MAX_CHARS]}\n… {len(text) - MAX_CHARS} characters more")
    return ToolResultPersistChange(message=replace(event.message, content=(short,)))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.tool_result_persist(shorten)
