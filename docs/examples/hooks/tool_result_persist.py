"""Keep long results of tools out of the transcript."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import ToolResultPersist, ToolResultPersistChange
from skerry.sdk.messages import TextBlock, replace

KEPT = 2000


def shorten(event: ToolResultPersist) -> ToolResultPersistChange | None:
    """Return the beginning of a long result. The hook takes plain functions only."""
    text = event.message.text
    if len(text) <= KEPT:
        return None
    short = TextBlock(f"{text[:KEPT]}\n… {len(text) - KEPT} characters more")
    return ToolResultPersistChange(message=replace(event.message, content=(short,)))


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.tool_result_persist(shorten)
