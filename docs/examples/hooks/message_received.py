"""Logs the sender and the channel of each message."""

import logging

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import MessageReceived

logger = logging.getLogger(__name__)


async def log_message(event: MessageReceived) -> None:
    """Logs the length of the message, not its text."""
    sender = event.sender or "a client of the gateway"
    logger.info("%s: %s wrote %d characters", event.context.channel, sender, len(event.content))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.message_received(log_message)
