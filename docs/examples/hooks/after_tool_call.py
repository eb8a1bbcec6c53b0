"""Replaces API keys in tool results, for the model and for the transcript."""

import re

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AfterToolCall, AfterToolCallChange
from skerry.sdk.messages import TextBlock, replace

KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")


async def hide(event: AfterToolCall) -> AfterToolCallChange | None:
    """Returns the result without the keys."""
    text = event.result.text
    if not KEY.search(text):
        return None
    hidden = TextBlock(KEY.sub("[key]", text))
    return AfterToolCallChange(result=replace(event.result, content=(hidden,)))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.after_tool_call(hide)
