"""Removes a phrase from every response."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import LlmOutput, LlmOutputChange
from skerry.sdk.messages import TextBlock, replace

PHRASE = "As an AI, "


async def shorten(event: LlmOutput) -> LlmOutputChange | None:
    """Returns the response without the phrase; its other blocks stay."""
    message = event.last_assistant
    if PHRASE not in message.text:
        return None
    content = tuple(
        TextBlock(block.text.replace(PHRASE, "")) if isinstance(block, TextBlock) else block
        for block in message.content
    )
    return LlmOutputChange(message=replace(message, content=content))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.llm_output(shorten)
