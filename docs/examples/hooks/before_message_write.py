"""Keeps card numbers out of the transcript."""

import re

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BeforeMessageWrite, BeforeMessageWriteChange
from skerry.sdk.messages import TextBlock, UserMessage, replace

CARD = re.compile(r"\b\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}\b")


def hide(event: BeforeMessageWrite) -> BeforeMessageWriteChange | None:
    """Returns the person's message without the numbers. This hook needs a plain function."""
    message = event.message
    if not isinstance(message, UserMessage) or not CARD.search(message.text):
        return None
    content = tuple(
        TextBlock(CARD.sub("[card]", block.text)) if isinstance(block, TextBlock) else block
        for block in message.content
    )
    return BeforeMessageWriteChange(message=replace(message, content=content))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_message_write(hide)
